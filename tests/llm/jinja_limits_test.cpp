#include <chrono>

#include "../helpers.h"
#include "../processor_time.h"
#include "tensora/llm/chat/jinja/evaluator.h"
#include "tensora/llm/chat/jinja/parser.h"

namespace tensora::llm::jinja {
namespace {

using testing::contains;
using testing::error_of;
using testing::ProcessorTime;

std::string render(std::string_view source, std::string_view variables = "{}") {
  const Body body = parse(source);
  return Evaluator({}, 0).run(body, from_json(variables, "variables").pairs());
}

std::string problem(std::string_view source) {
  return error_of([&] { render(source); });
}

constexpr const char* kMost = "9223372036854775807";
constexpr const char* kLeast = "(-9223372036854775807 - 1)";

TEST(JinjaLimits, ExtremeNumbers) {
  // Each would overflow if sums and differences of what a template gives were not checked.
  const auto with = [](std::string source, const char* number) {
    for (size_t at = source.find('@'); at != std::string::npos; at = source.find('@'))
      source.replace(at, 1, number);
    return render(source);
  };
  EXPECT_EQ(with("{{ 'aaaa'|truncate(@) }}", kMost), "aaaa");
  EXPECT_EQ(with("{{ 'aaaa'|truncate(4, true, '', @) }}", kMost), "aaaa");
  EXPECT_EQ(with("{{ 'aaaa bbbb'|truncate(6, leeway=0) }}", kMost), "aaa...");
  EXPECT_EQ(with("{{ 'a'.ljust(@) }}{{ 'a'.rjust(@) }}{{ 'a'|center(@) }}", kLeast), "aaa");
  EXPECT_EQ(with("{{ 'a b c'.split(' ', @) }}{{ 'a b'.split(none, @) }}", kLeast),
            "['a', 'b', 'c']['a', 'b']");
  EXPECT_EQ(with("{{ 'a b'.replace('a', 'c', @) }}{{ 'ab'.replace('', '-', @) }}", kLeast),
            "c b-a-b-");
  EXPECT_EQ(with("{{ @ % 3 }} {{ @ % -3 }} {{ @ % -1 }} {{ @ // 3 }}", kLeast),
            "1 -2 0 -3074457345618258603");
  EXPECT_EQ(with("{{ [1, 2, 3][@:] }}{{ [1, 2, 3][:@] }}{{ [1, 2, 3][::@] }}", kMost),
            "[][1, 2, 3][1]");
  EXPECT_EQ(with("{{ [1, 2, 3][@:] }}{{ [1, 2, 3][:@] }}{{ [1, 2, 3][::@] }}", kLeast),
            "[1, 2, 3][][3]");
  EXPECT_EQ(
      with("{{ 'abc'[@:] }}|{{ 'abc'[:@] }}|{{ 'abc'[::@] }}|{{ 'abc'[@] is defined }}", kLeast),
      "abc||c|False");
  EXPECT_EQ(with("{{ range(@ - 2, @) }}{{ range(0, @, @) }}", kMost),
            "[9223372036854775805, 9223372036854775806][0]");
  for (const char* source :
       {"{{ @ + @ }}", "{{ @ * @ }}", "{{ -@ - @ }}", "{{ @ ** 2 }}", "{{ 'a' * @ }}",
        "{{ [1] * @ }}", "{{ 'a'.ljust(@) }}", "{{ 'a'|indent(@) }}", "{{ [1]|batch(@) }}",
        "{{ [1]|slice(@) }}", "{{ 1.5|round(@) }}", "{{ [1]|tojson(indent=@) }}", "{{ '%@d' % 1 }}",
        "{{ '%.@f' % 1 }}", "{{ '12'|int(base=@) }}", "{{ [@, @]|sum }}"})
    EXPECT_NE(error_of([&] { with(source, kMost); }), "") << source;
  EXPECT_NE(error_of([&] { with("{{ @|abs }}", kLeast); }), "");
  EXPECT_NE(error_of([&] { with("{{ -@ }}", kLeast); }), "");
  EXPECT_TRUE(contains(problem("{{ '\\x-1' }}"), "hexadecimal digits"));
  EXPECT_TRUE(contains(problem("{{ '\\u +1' }}"), "hexadecimal digits"));
}

constexpr const char* kOfTexts[] = {"t|length",
                                    "t|wordcount",
                                    "t is lower",
                                    "t is upper",
                                    "t.isdigit()",
                                    "t.isalpha()",
                                    "t.isspace()",
                                    "t.isalnum()",
                                    "t.isupper()",
                                    "t.islower()",
                                    "t[5:7]",
                                    "t[::2]",
                                    "t[-1]",
                                    "t|int",
                                    "t|float",
                                    "t|trim",
                                    "t.strip('x')",
                                    "t.find('x')",
                                    "t.rfind('x')",
                                    "t.count('x')",
                                    "t.index('ab')",
                                    "t.replace('x', 'y')",
                                    "t.split('x')",
                                    "t.rsplit('x', 1)",
                                    "'x' in t",
                                    "t.splitlines()",
                                    "t|truncate(3)",
                                    "t|upper",
                                    "t|lower",
                                    "t|title",
                                    "t|capitalize",
                                    "t|e",
                                    "t|indent",
                                    "t|string",
                                    "t|tojson",
                                    "t|list",
                                    "t|first",
                                    "t|last",
                                    "t|reverse",
                                    "t|unique",
                                    "t|sort",
                                    "t|min",
                                    "t|join",
                                    "t|replace('x', 'y')",
                                    "t|center(1)",
                                    "t.title()",
                                    "t.removeprefix('a')",
                                    "t is sameas t",
                                    "t == t ~ ''",
                                    "t < t",
                                    "{t: 1}",
                                    "dict([[t, 1]])",
                                    "{}[t]",
                                    "{}.get(t)",
                                    "{}[t] is defined",
                                    "t.join([])",
                                    "''.join(t)",
                                    "t.startswith(t)",
                                    "'a'.startswith(t)",
                                    "'a'|attr(t)",
                                    "[{}]|map(attribute=t)|list",
                                    "''.format(t)",
                                    "t.format()",
                                    "t % ()",
                                    "t is filter",
                                    "''|default(t)",
                                    "joiner(t)",
                                    "cycler(t)",
                                    "namespace(a=t).a|length"};
constexpr const char* kOfLists[] = {
    "l|length",        "l|sum",        "l|sort",        "l|list",       "l|reverse",
    "l|batch(1000)",   "l|slice(10)",  "l|first",       "l|last",       "l|min",
    "l|max",           "l|unique",     "l|join",        "l|map('abs')", "l|select('odd')",
    "l|groupby(0)",    "l|tojson",     "l|string",      "l[1:]",        "l[::-1]",
    "l == l",          "l < l",        "2 in l",        "l.index(1)",   "l.count(1)",
    "l + l",           "l * 2",        "(l, l)|length", "cycler(*l)",   "dict(l)",
    "loop.changed(l)", "l is sameas l"};

// What reads all of a long text or list, again and again, is charged for what it reads: no filter,
// test or method is free.
TEST(JinjaLimits, ReadingIsCharged) {
  const std::string text = "{% set t = 'ab ' * 1000000 %}";
  const std::string list = "{% set l = [1] * 1000000 %}";
  const auto ends = [](const std::string& source) {
    const ProcessorTime time;
    const std::string error = error_of([&] {
      const Body body = parse(source);
      Evaluator({.steps = 2'000'000}, 0).run(body, {});
    });
    EXPECT_TRUE(contains(error, "steps")) << source << ": " << error.substr(0, 200);
    EXPECT_LT(time.seconds(), 10) << source;
  };
  for (const char* part : kOfTexts)
    ends(text + "{% for i in range(20000) %}{% set y = " + part + " %}{% endfor %}");
  for (const char* part : kOfLists)
    ends(list + "{% for i in range(200000) %}{% set y = " + part + " %}{% endfor %}");
}

TEST(JinjaLimits, SearchesAreNotQuadratic) {
  const ProcessorTime time;
  const std::string set = "{% set a = 'a' * 4000000 %}{% set b = 'a' * 2000000 ~ 'b' %}";
  for (const char* part : {"b in a", "a.find(b)", "a.count(b)", "a.split(b)", "a.replace(b, '')",
                           "a.rfind(b)", "a.rsplit(b, 1)", "a.strip(b)", "a|trim(b)"})
    problem(set + "{{ (" + part + ")|length }}");
  EXPECT_LT(time.seconds(), 30);
}

// A template of a few lines cannot hold memory that it was not charged for.
TEST(JinjaLimits, WhatIsHeldIsCharged) {
  const ProcessorTime time;
  const auto ends = [](const std::string& source, const char* words) {
    const std::string error = problem(source);
    EXPECT_TRUE(contains(error, words)) << source << ": " << error.substr(0, 200);
  };
  const std::string many =
      "{% set ns = namespace(d={}) %}{% set p = namespace(l=[]) %}"
      "{% for i in range(300) %}{% set p.l = p.l + [['k' ~ i, i]] %}{% endfor %}"
      "{% set d = dict(p.l) %}";
  ends(many + "{% for i in range(90000) %}{% set x = namespace(**d) %}{% endfor %}", "steps");
  ends(many + "{% for i in range(90000) %}{% set x = dict(d, **d) %}{% endfor %}", "steps");
  ends(many + "{% for i in range(90000) %}{% set x = dict(d, z=1) %}{% endfor %}", "steps");
  ends("{{ ('{0}' * 100000).format('a' * 100000) }}", "bytes");
  ends("{{ '%s' * 700 % ((('a' * 100000),) * 700) }}", "steps");
  ends("{{ ([1] * 10000)|tojson(separators=['a' * 100000, 'b']) }}", "too long");
  ends("{{ [[[[1]]]]|tojson(indent='a' * 30000000) }}", "steps");
  ends("{{ 'a'.ljust(1000000, 'x' * 1000000) }}", "one character");
  ends(
      "{% set ns = namespace(l=[]) %}{% for i in range(90000) %}{% macro m() %}{% endmacro %}"
      "{% set ns.x = [ns.x] %}{% endfor %}",
      "nested");
  EXPECT_LT(time.seconds(), 60);
}

TEST(JinjaLimits, ManyNamesAreCharged) {
  const ProcessorTime time;
  std::string source;
  for (int i = 0; i < 20000; ++i) source += "{% set a" + std::to_string(i + 10000) + " = 1 %}";
  EXPECT_TRUE(
      contains(problem(source + "{% for i in range(99999) %}{{ a29999 }}{% endfor %}"), "steps"));
  std::string list = "(";
  for (int i = 0; i < 20000; ++i) list += "p" + std::to_string(i + 10000) + ",";
  list.back() = ')';
  EXPECT_TRUE(contains(problem("{% macro m" + list +
                               " %}{% endmacro %}{% for i in range(9999) %}{{ m() }}{% endfor %}"),
                       "steps"));
  EXPECT_LT(time.seconds(), 20);
}

// Numbers as keys are found by hashing, and 1, 1.0 and true are one key.
TEST(JinjaLimits, DictsOfNumbers) {
  const ProcessorTime time;
  EXPECT_EQ(render("{% set d = dict(range(30000)|batch(2)) %}{{ d[2000] }} {{ d[2000.0] }} "
                   "{{ d[1] is defined }} {{ d|length }} {{ {1: 'a', true: 'b', 1.0: 'c'} }}"),
            "2001 2001 False 15000 {1: 'c'}");
  EXPECT_LT(time.seconds(), 5);
}

TEST(JinjaLimits, ALoopThatRemembersItselfIsFreed) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% for i in [1, 2] %}{{ loop.changed(loop) }}"
                   "{% set ns.l = loop %}{% endfor %}{{ ns.l.changed(ns.l) }}"),
            "TrueTrueFalse");
}

// A list that grows by one item after another, as templates collect messages.
TEST(JinjaLimits, ListsMayGrow) {
  EXPECT_EQ(
      render("{% set ns = namespace(l=[]) %}{% for i in range(2500) %}{% set ns.l = ns.l + [i] %}"
             "{% endfor %}{{ ns.l|length }}"),
      "2500");
}

// A conversation of many megabytes is not taken for an attack.
TEST(JinjaLimits, LongConversationsFit) {
  std::string messages = "[";
  for (int i = 0; i < 200; ++i)
    messages += R"({"role": "user", "content": ")" + std::string(50'000, 'x') + R"("},)";
  messages.back() = ']';
  const std::string source =
      "{% for m in messages %}{% if m.content is string and m.content.startswith('<') %}!{% endif "
      "%}"
      "{% set c = m.content.split('</think>')[-1].strip() %}"
      "{% if '<tool>' in c or (c|trim)[:1] == ' ' or c|length > 100000 %}!{% endif %}"
      "{{ '<|' + m.role + '|>' + c + '\\n' }}{% endfor %}";
  EXPECT_EQ(render(source, R"({"messages": )" + messages + "}").size(), 200 * (50'000 + 9));
}

}  // namespace
}  // namespace tensora::llm::jinja

#include "../helpers.h"
#include "../processor_time.h"
#include "tensora/llm/chat/jinja/evaluator.h"
#include "tensora/llm/chat/jinja/parser.h"

namespace tensora::llm::jinja {
namespace {

using testing::contains;
using testing::error_of;
using testing::ProcessorTime;

std::string render(std::string_view source, std::string_view variables = "{}",
                   const Limits& limits = {}) {
  const Body body = parse(source);
  return Evaluator(limits, 0).run(body, from_json(variables, "variables").pairs());
}

std::string problem(std::string_view source, const Limits& limits = {}) {
  return error_of([&] { render(source, "{}", limits); });
}

struct Case {
  const char* source;
  const char* expected;
};

constexpr const char* kVariables =
    R"({"s": "Hello World", "l": [3, 1, 2], "d": {"b": 1, "a": 2}, "n": null, "x": [{"k": "v"}, {"k": "u", "w": 1}]})";

void expect_all(const std::vector<Case>& cases) {
  for (const Case& one : cases)
    EXPECT_EQ(render(one.source, kVariables), one.expected) << one.source;
}

// What random templates showed beside Jinja itself.
TEST(Jinja, OddCornersAreJinjas) {
  expect_all({
      // Equal keys need no order, so items without the attribute stay as they are.
      {"{{ x|sort(attribute='zz')|map(attribute='k')|join }}{{ [none, none]|sort }}",
       "vu[None, None]"},
      {"{{ [[none, 2], [none, 1]]|sort }}{{ [[1], [1, 0]]|max }}", "[[None, 1], [None, 2]][1, 0]"},
      // `else` also follows a loop of which no iteration reached the end of the body.
      {"{% for i in l %}{% continue %}{% else %}e{% endfor %}", "e"},
      {"{% for i in l %}{{ i }}{% break %}{% else %}e{% endfor %}", "3e"},
      {"{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{% else %}e{% endfor %}", ""},
      // Integers stay integers; halves go to the even multiple.
      {"{{ 15|round(-1) }} {{ 25|round(-1) }} {{ -26|round(-1) }} {{ 7|round(-30) }} "
       "{{ true|round(-1) }}",
       "20 20 -30 0 0"},
      {"{{ 4611686018427387904|round(-1) }}{{ 15|round(-1, 'floor') }}", "461168601842738790010.0"},
      // Where all parts are equally long, each gets the value; so Jinja has it.
      {"{{ [1, 2, 3, 4]|slice(2, 'x')|list }}{{ [1, 2, 3]|slice(2, 'x')|list }}",
       "[[1, 2, 'x'], [3, 4, 'x']][[1, 2], [3, 'x']]"},
      {"{{ l|truncate(2, leeway=1, end='') }}{{ missing|truncate }}", "[3, 1, 2]"},
      {"{{ missing is callable }}{{ range is callable }}", "TrueTrue"},
      {"{{ x[:1]|max(attribute='zz')|length }}{{ [none]|min }}", "1None"},
  });
  EXPECT_TRUE(contains(problem("{{ [1, 2, 3]|truncate(2, leeway=0, end='') }}"),
                       "truncate: expected a text, got a list of 3 items"));
  EXPECT_TRUE(contains(problem("{{ 3|truncate }}"), "a int has no length"));
  EXPECT_TRUE(contains(problem("{{ 9223372036854775807|round(-1) }}"), "has no 1 digits"));
}

TEST(Jinja, OddValuesAreJinjas) {
  expect_all({
      {"{{ +(-0.0) }} {{ -0.0 % 2.5 }} {{ 0.0 % -2.5 }} {{ -7.5 % 2 }}", "-0.0 0.0 -0.0 0.5"},
      {"{{ 'x'|int('none') }} {{ [1]|int(default=true) }} {{ 'x'|int([]) }}", "none True []"},
      {"{{ 'x' % [1] }}{{ '' % {} }}", "x"},
      {"{{ 2.5|safe is string }}{{ [1, 2]|safe|length }}", "True6"},
      {"{{ '\u00df a'|title }} {{ '\u00df a'.title() }} {{ '\u00df'|capitalize }}", "SS A Ss A Ss"},
      {"{{ '\U0001F600'.isalpha() }} {{ '\u65e5'.isalpha() }} {{ '\u0663'.isdigit() }}",
       "False True True"},
      {"{{ '\u00bd'.isalnum() }} {{ 'a \U0001F600 b\u00e9'|wordcount }}", "True 2"},
      {"{{ x|map(attribute='k.z', default='-')|join }}{{ x|groupby('w.z', default=0)|length }}",
       "--1"},
  });
  for (const char* wrong :
       {"{{ 0 ** -1 }}", "{{ 0.0 ** -1 }}", "{{ (-8) ** 0.5 }}", "{{ missing|float }}",
        "{{ ['a', 'b']|groupby('n') }}", "{{ []|groupby }}", "{{ [1] in {} }}", "{{ {}.get([]) }}",
        "{{ [[], []]|unique }}", "{{ 011 }}", "{{ 'abc'[missing:] }}",
        "{{ namespace(a=1)|dictsort }}", "{{ (1, 2).copy() }}"})
    EXPECT_NE(problem(wrong), "") << wrong;
}

// An argument that nothing reads is a mistake of the template, or one that we do not know.
TEST(Jinja, NoArgumentIsIgnored) {
  for (const char* twice :
       {"{{ 1|default(2, default_value=3) }}", "{{ [1]|sort(true, reverse=false) }}",
        "{{ 'a'|replace('a', 'b', 1, count=2) }}", "{{ 'a'|trim('b', chars='c') }}",
        "{{ 'a'|indent(2, width=3) }}", "{{ 'a b'.split(' ', sep='b') }}"})
    EXPECT_TRUE(contains(problem(twice), "is given twice")) << twice;
  for (const char* alone :
       {"{{ 'a'|upper(1) }}",     "{{ 'a'|title(x=1) }}",   "{{ 'a'|e(1) }}",
        "{{ [1]|list(1) }}",      "{{ [1]|first(1) }}",     "{{ [1]|length(1) }}",
        "{{ 'a'|wordcount(1) }}", "{{ 1|string(1) }}",      "{{ 1|safe(1) }}",
        "{{ 1|abs(1) }}",         "{{ [1]|reverse(1) }}",   "{{ {}|items(1) }}",
        "{{ 'a'.upper(1) }}",     "{{ 'a'.isdigit(x=1) }}", "{{ {}.items(1) }}",
        "{{ {}.copy(1) }}",       "{{ 1 is odd(1) }}",      "{{ 1 is defined(1) }}",
        "{{ joiner()(1) }}",      "{{ cycler(1).next(2) }}"})
    EXPECT_TRUE(contains(problem(alone), "expected no arguments, got 1")) << alone;
  const std::string macro = "{% macro m(a) %}{{ a }}{% endmacro %}";
  EXPECT_TRUE(contains(problem(macro + "{{ m(1, 2) }}"), "m: expected at most 1 arguments, got 2"));
  EXPECT_TRUE(contains(problem(macro + "{{ m(b=1) }}"), "m: has no parameter b"));
  EXPECT_TRUE(
      contains(problem(macro + "{% call m(1) %}x{% endcall %}"), "has no parameter caller"));
  EXPECT_TRUE(contains(problem("{{ 'a'|format(1, x=2) }}"), "not both"));
  expect_all({
      {"{% macro m(a) %}{{ a }}{{ varargs|join }}{{ kwargs.b }}{% endmacro %}{{ m(1, 2, 3, b=4) }}",
       "1234"},
      {"{% macro m() %}{% if true %}{{ caller(1) }}{% endif %}{% endmacro %}"
       "{% call(x) m() %}<{{ x }}>{% endcall %}",
       "<1>"},
  });
}

TEST(Jinja, Expressions) {
  expect_all({
      {"{{ 1 + 2 * 3 - 4 }}", "3"},
      {"{{ (1 + 2) * 3 }}", "9"},
      {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }}", "3 -4 2 3.5 64"},
      {"{{ 1.0 }} {{ 1e20 }} {{ 0.00001 }} {{ 2.5e-7 }} {{ 10 / 5 }}",
       "1.0 1e+20 1e-05 2.5e-07 2.0"},
      {"{{ 1_000 }} {{ 0x1F }}", "1000 31"},
      {"{{ 'a' ~ 1 ~ none ~ true }}", "a1NoneTrue"},
      {"{{ 'a' 'b' + \"c\" }}", "abc"},
      {"{{ '\\n\\t\\\\\\'\\x41\\u00e9' }}", "\n\t\\'A\u00e9"},
      {"{{ [1, 'a', none, 2.0, {'k': (1,)}] }}", "[1, 'a', None, 2.0, {'k': (1,)}]"},
      {"{{ \"it's\"|list|length }} {{ [\"it's\", 'q\"'] }}", "4 [\"it's\", 'q\"']"},
      {"{{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ 'a' in 'cat' }} {{ 3 not in l }} {{ 'b' in d }}",
       "True True True False True"},
      {"{{ not 1 == 2 }} {{ 0 or 'x' }} {{ 1 and '' }}", "True x "},
      {"{{ 'y' if l else 'n' }}{{ 'z' if n }}", "y"},
      {"{{ s[0] }}{{ s[-1] }}{{ s[1:4] }}{{ s[::-2] }}{{ l[5] }}{{ l[:-1] }}", "HdelldrWolH[3, 1]"},
      {"{{ 'h\u00e9l'[1] }}{{ 'h\u00e9l'|length }}{{ 'h\u00e9l'[::-1] }}", "\u00e93l\u00e9h"},
      {"{{ d.a }}{{ d['b'] }}{{ d.zz }}{{ x.0.k }}{{ x[1]['w'] }}", "21v1"},
      {"{{ missing }}{{ missing is defined }}{{ missing|default(3) }}{{ n|default(3) }}{{ "
       "n|default(3, true) }}",
       "False3None3"},
      {"{{ -l[0]|abs }} {{ -2|abs }}", "3 2"},
      {"{{ 'ab' * 2 }}{{ [1] * 2 + [3] }}", "abab[1, 1, 3]"},
      {"{{ '%s=%d %.2f %%' % ('a', 3, 1.005) }}", "a=3 1.00 %"},
      {"{{ {'a': 1}.items() }} {{ d.get('q', 7) }} {{ d|length }}", "[('a', 1)] 7 2"},
      {"{{ 5 is odd }}{{ 'x' is string }}{{ d is mapping }}{{ l is sequence }}{{ 3 is divisibleby "
       "3 }}{{ 1 is in l }}",
       "TrueTrueTrueTrueTrueTrue"},
      {"{{ x|selectattr('w', 'defined')|map(attribute='k')|join('-') }}{{ "
       "x|map(attribute='k')|list }}",
       "u['v', 'u']"},
      {"{{ l|sort|join(',') }}{{ l|sum }}{{ l|max }}{{ l|first }}{{ l|last }}", "1,2,36332"},
      {"{{ s.upper().split() }}{{ s.replace('l', 'L', 1) }}{{ s.find('W') }}{{ s.startswith(('x', "
       "'He')) }}",
       "['HELLO', 'WORLD']HeLlo World6True"},
      {"{{ '  x '.strip() }}|{{ 'xxay'.lstrip('x') }}|{{ ' a  b '.split() }}|{{ "
       "'a,b,c'.rsplit(',', 1) }}",
       "x|ay|['a', 'b']|['a,b', 'c']"},
      {"{{ '{} {0} {n}'.format(1, n=2) if false else '{}-{}'.format('a', 1) }}", "a-1"},
      {"{{ d|tojson }}{{ d|tojson(indent=1) }}{{ '\u00e9<'|tojson }}",
       "{\"b\": 1, \"a\": 2}{\n \"b\": 1,\n \"a\": 2\n}\"\u00e9<\""},
      {"{{ 'a\\n\\nb'|indent(2) }}", "a\n\n  b"},
      {"{{ 3.7|int }}{{ '12'|int + 1 }}{{ 'x'|int(5) }}{{ '2.5'|float }}{{ 2.5|round }}{{ 3|round "
       "}}",
       "313"
       "52.52.03"},
      {"{{ 'the quick-fox'|title }} {{ 'ABC'|capitalize }} {{ 'abcdefghij klm'|truncate(8) }}",
       "The Quick-Fox Abc abcde..."},
  });
}

TEST(Jinja, Statements) {
  expect_all({
      {"{% for a in l %}{{ loop.index }}{{ a }}{{ ',' if not loop.last }}{% endfor %}", "13,21,32"},
      {"{% for a in [] %}x{% else %}none{% endfor %}", "none"},
      {"{% for k, v in d.items() if v > 1 %}{{ k }}{{ loop.length }}{% endfor %}", "a1"},
      {"{% for a in l %}{% if a == 1 %}{% continue %}{% endif %}{{ a }}{% if a == 2 %}{% break "
       "%}{% endif %}{% endfor %}",
       "32"},
      {"{% set v = 1 %}{% for a in l %}{% set v = a %}{% endfor %}{{ v }}", "1"},
      {"{% for a in l %}{{ q is defined }}{% set q = 1 %}{% endfor %}", "FalseFalseFalse"},
      {"{% set ns = namespace(v=1) %}{% for a in l %}{% set ns.v = ns.v + a %}{% endfor %}{{ ns.v "
       "}}",
       "7"},
      {"{% if n %}a{% elif l %}b{% else %}c{% endif %}", "b"},
      {"{% set a, b = 1, 2 %}{{ b }}{{ a }}", "21"},
      {"{% set t %}x{{ 1 }}{% endset %}{{ t * 2 }}", "x1x1"},
      {"{% set t | upper %}x{% endset %}{{ t }}", "X"},
      {"{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{% endmacro %}{{ m(1) }}{{ m(1, b=3) }}{{ "
       "m(1, 2, 3) }}",
       "12()13()12(3,)"},
      {"{% macro m() %}<{{ caller('x') }}>{% endmacro %}{% call(v) m() %}{{ v }}{{ s }}{% endcall "
       "%}",
       "<xHello World>"},
      {"{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(3) }}",
       "3210"},
      {"{% for a in [1, [2, [3]]] recursive %}{% if a is iterable %}({{ loop(a) }}){% else %}{{ a "
       "}}@{{ loop.depth }}{% endif %}{% endfor %}",
       "1@1(2@2(3@3))"},
      {"{% for a in 'aab' %}{{ loop.changed(a) }}{{ loop.cycle('x', 'y') }}{% endfor %}",
       "TruexFalseyTruex"},
      {"{% filter upper %}a{% endfilter %}{% with u = 2 %}{{ u }}{% endwith %}{{ u }}", "A2"},
      {"{% set j = joiner('-') %}{{ j() }}a{{ j() }}b{% set c = cycler(1, 2) %}{{ c.next() }}{{ "
       "c.next() }}{{ c.next() }}",
       "a-b121"},
      {"{{ dict(a=1, b='x') }}{{ range(3) | list }}{{ range(5, 0, -2) | list }}",
       "{'a': 1, 'b': 'x'}[0, 1, 2][5, 3, 1]"},
  });
}

TEST(Jinja, Blanks) {
  expect_all({
      {"a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"},
      {"a\n  {%+ if true %}\nb{% endif %}", "a\n  b"},
      {"a  {%- if true -%}  b  {%- endif -%}  c", "abc"},
      {"a {{- 1 -}} b", "a1b"},
      {"  {{ 1 }}\n{{ 2 }}\n", "  1\n2"},
      {"a{# x #}\nb{#- y -#} c",
       "ab"
       "c"},
      {"x {% if true %} y {% endif %}\nz", "x  y z"},
      {"{% raw %}{{ x }}{% endraw %}", "{{ x }}"},
      {"a\r\nb\r", "a\nb"},
      {"{% set x = {'a': {}} %}{{ x }}", "{'a': {}}"},
      {"{% if true +%}\na{% endif %}", "\na"},
  });
}

TEST(Jinja, ErrorsHaveAPlace) {
  const auto fails = [](const char* source, const char* words) {
    EXPECT_TRUE(contains(problem(source), words)) << problem(source) << " lacks " << words;
  };
  fails("ab\n {{ 1 + }}", "template: line 2, column 9: expected an expression, got }}");
  fails("{% if x %}", "expected endif");
  fails("{% foo %}", "line 1, column 4: expected a statement");
  fails("{% include 'x' %}", "got include");
  fails("{{ 'abc", "text that begins here");
  fails("{{ (1 }}", "unexpected }");
  fails("{# abc", "comment that begins here");
  fails("{{ a.b.c }}", "line 1, column 5: a is undefined and has no b");
  fails("\n\n{{ 'x' + 1 }}", "line 3, column 8: a str and a int cannot be combined by +");
  fails("{{ x() }}", "x is undefined and cannot be called");
  fails("{{ 1|nope }}", "there is no filter nope");
  fails("{{ 1 is nope }}", "there is no test nope");
  fails("{{ raise_exception('no ' ~ 1) }}", "line 1, column 19: no 1");
  fails("{{ 1 / 0 }}", "division by zero");
  fails("{{ 9223372036854775807 + 1 }}", "more than 63 bits");
  fails("{{ 99999999999999999999 }}", "too large");
  fails("{{ [1].append(2) }}", "cannot be changed");
  fails("{{ {}.update(a=1) }}", "cannot be changed");
  fails("{% for a in 3 %}{% endfor %}", "cannot be iterated");
  fails("{% set a, b = [1] %}", "expected 2 values to unpack, got 1");
  fails("{% set x.y = 1 %}", "to be a namespace");
  fails("{% break %}", "outside of a loop");
  fails("{{ [1, 'a']|sort }}", "have no order");
  fails("{{ ''.__class__.__mro__ }}", "is undefined");
  fails("{{ 'x'|tojson(bogus=1) }}", "has no parameter bogus");
  fails("{{ '%q' % 1 }}", "not supported");
  fails("{{ '{0.__class__}'.format(1) }}", "not supported");
}

TEST(Jinja, Limits) {
  const ProcessorTime time;
  const auto fails = [](const std::string& source, const char* words) {
    EXPECT_TRUE(contains(problem(source), words))
        << problem(source).substr(0, 300) << " lacks " << words;
  };
  fails("{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}",
        "nested too deeply");
  fails("{{ " + std::string(100000, '[') + std::string(100000, ']') + " }}", "nested too deeply");
  fails("{{ " + std::string(100000, '-') + "1 }}", "nested too deeply");
  std::string text = "{{ 1";
  for (int i = 0; i < 50000; ++i) text += " + 1";
  fails(text + " }}", "too long");
  text = "{{ x";
  for (int i = 0; i < 50000; ++i) text += ".a";
  fails(text + " }}", "too long");
  text = "";
  for (int i = 0; i < 5000; ++i) text += "{% if 1 %}";
  fails(text, "nested too deeply");
  text = "{{ 1";
  for (int i = 0; i < 50000; ++i) text += " if 1";
  fails(text + " }}", "too long");
  fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "endless recursion");
  fails("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "steps");
  fails("{{ range(1000000000) }}", "at most 100000 numbers");
  fails("{{ 'a' * 10000000000 }}", "too long");
  fails("{{ [1] * 10000000000 }}", "too long");
  fails(
      "{% set ns = namespace(s='ab') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% "
      "endfor %}",
      "steps");
  fails(
      "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% "
      "endfor %}",
      "steps");
  fails(
      "{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor "
      "%}{{ ns.l }}",
      "nested too deeply");
  fails("{% for i in range(99999) %}{{ 'x' * 10000 }}{% endfor %}", "steps");
  fails("{{ 'x'.ljust(100000000) }}", "a million");
  fails("{{ '%99999999d' % 1 }}", "too long");
  fails("{{ ('a,' * 1000000).replace(',', 'b' * 1000) }}", "replace: the text becomes too long");
  fails("{{ ('a' * 100000).replace('', 'b' * 1000) }}", "replace: the text becomes too long");
  fails("{{ ('x' * 1000000).join('y' * 100000) }}", "bytes of output");
  fails("{{ ('y' * 100000)|join('x' * 1000000) }}", "bytes of output");
  // What is small when written as a graph, and huge as a tree.
  const std::string doubled =
      "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% "
      "endfor %}";
  fails(doubled + "{{ ns.l == ns.l }}", "a value is too large");
  fails(
      "{% set ns = namespace(f=cycler(1)) %}{% for i in range(9999) %}{% set ns.f = cycler(ns.f) "
      "%}{% endfor %}",
      "nested too deeply");
  fails(
      "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l.index] %}{% "
      "endfor %}",
      "nested too deeply");
  EXPECT_EQ(problem("{% set a = namespace() %}{% set a.x = [a] %}{% set a.y = a %}{{ a.y.x[0].y is "
                    "defined }}"),
            "");
  EXPECT_TRUE(contains(problem("{{ 'abc' * 100 }}", {.output_bytes = 100}), "100 bytes"));
  EXPECT_TRUE(contains(problem(std::string(size_t{5} << 20, 'x')), "at most"));
  EXPECT_LT(time.seconds(), 30);
}

TEST(Jinja, DictsKeepTheirOrder) {
  Dict dict;
  for (int i = 0; i < 200; ++i) dict.set("k" + std::to_string(i * 7 % 200), i);
  dict.set(3, "three");
  dict.set("k7", "again");
  EXPECT_EQ(dict.size(), 201u);
  EXPECT_EQ(dict.find("k7")->text(), "again");
  EXPECT_EQ(dict.find(3)->text(), "three");
  EXPECT_EQ(dict.find("k777"), nullptr);
  EXPECT_EQ(dict.pairs()[1].first.text(), "k7");
  Dict copy = dict;
  copy.set("k7", 1);
  EXPECT_EQ(dict.find("k7")->text(), "again");
  EXPECT_TRUE(contains(error_of([] { from_json(std::string(100, '['), "x"); }), "x: "));
}

}  // namespace
}  // namespace tensora::llm::jinja

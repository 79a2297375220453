#include "tensora/llm/grammar/grammar.h"

#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "../helpers.h"
#include "../processor_time.h"
#include "tensora/llm/grammar/grammar_matcher.h"
#include "tensora/llm/grammar/json_schema.h"
#include "tensora/llm/grammar/token_trie.h"
#include "tensora/llm/sampling/sampler.h"
#include "toy_tokenizer.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;
using testing::ProcessorTime;

const std::shared_ptr<const ToyTokenizer>& bytes() {
  static const auto tokenizer = ToyTokenizer::with_bytes();
  return tokenizer;
}

// Whether a text is a sentence: every byte allowed, and an end where it ends.
bool matches(const std::string& grammar, std::string_view text) {
  GrammarMatcher matcher(Grammar::parse(grammar), bytes());
  for (const int32_t token : bytes()->encode(text)) {
    if (!matcher.allows(token)) return false;
    matcher.accept(token);
  }
  return matcher.may_end();
}

std::string problem(const std::string& grammar) {
  return error_of([&] { Grammar::parse(grammar); });
}

std::vector<std::string> allowed(GrammarMatcher& matcher, const Tokenizer& tokenizer) {
  std::vector<float> logits(static_cast<size_t>(tokenizer.vocab_size()));
  matcher.mask(logits);
  std::vector<std::string> out;
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(logits[i] == 0, matcher.allows(static_cast<int32_t>(i)));
    if (logits[i] == 0)
      out.push_back(tokenizer.bytes_of(static_cast<int32_t>(i), {.special = true}));
  }
  return out;
}

TEST(Grammar, Sentences) {
  EXPECT_TRUE(matches(R"(root ::= "yes" | "no")", "no"));
  EXPECT_FALSE(matches(R"(root ::= "yes" | "no")", "n"));
  EXPECT_FALSE(matches(R"(root ::= "yes" | "no")", "nos"));
  EXPECT_TRUE(matches("root ::= [a-c]+ (\",\" [0-9]{2,3})* \"!\"?", "abc,12,345"));
  EXPECT_FALSE(matches("root ::= [a-c]+ (\",\" [0-9]{2,3})* \"!\"?", "abc,1"));
  EXPECT_TRUE(matches("root ::= a b # comment\na ::= \"x\"\n\nb ::=\n  \"y\" |\n  \"z\"\n", "xz"));
  EXPECT_TRUE(matches("root ::= (\n \"a\"\n | \"b\"\n)\n", "b"));
  EXPECT_TRUE(matches("root ::= \"a\"\n  | \"b\"\n", "b"));
  EXPECT_TRUE(
      matches("root ::= \"\\x41\\u00e9\\U0001F600\\n\\t\\\\\\\"\"", "A\u00e9\U0001F600\n\t\\\""));
  EXPECT_TRUE(matches("root ::= [^a-z\\]\\-]*", "AB\u00e9\U0001F600"));
  EXPECT_FALSE(matches("root ::= [^a-z\\]\\-]*", "A-"));
  EXPECT_TRUE(matches("root ::= [a-]", "-"));
  EXPECT_TRUE(matches("root ::= .", "\u00e9"));
  EXPECT_FALSE(matches("root ::= .", "\xC3"));
  EXPECT_FALSE(matches("root ::= .", "\xED\xA0\x80"));  // a surrogate
  EXPECT_FALSE(matches("root ::= .*", "\xC0\x80"));     // overlong
  EXPECT_TRUE(matches("root ::= [\u0100-\U0001F600]+", "\u0100\uFFFD\U0001F600"));
  EXPECT_FALSE(matches("root ::= [\u0100-\U0001F600]+", "\u00FF"));
  EXPECT_TRUE(matches("root ::= ", ""));
  EXPECT_TRUE(matches("root ::= (\"a\"*)* \"b\"", "aaab"));
  EXPECT_TRUE(matches("root ::= \"a\"{3}", "aaa"));
  EXPECT_FALSE(matches("root ::= \"a\"{3}", "aa"));
  EXPECT_TRUE(matches("root ::= (\"ab\"){2,}", "ababab"));
  EXPECT_FALSE(matches("root ::= (\"ab\"){2,}", "ab"));
  EXPECT_TRUE(matches("root ::= \"(\" root \")\" | \"x\"", "(((x)))"));
  EXPECT_FALSE(matches("root ::= \"(\" root \")\" | \"x\"", "(((x))"));
}

TEST(Grammar, MistakesHaveAPlace) {
  EXPECT_TRUE(contains(problem(""), "expected a rule named root"));
  EXPECT_TRUE(contains(problem("root ::= foo"), "line 1, column 10: rule foo is used but not"));
  EXPECT_TRUE(contains(problem("root ::= \"a\"\nroot ::= \"b\""),
                       "line 2, column 1: rule root is defined twice"));
  EXPECT_TRUE(contains(problem("root = \"a\""), "line 1, column 6: expected ::="));
  EXPECT_TRUE(contains(problem("root ::= \"a"), "line 1, column 10: the text that begins here"));
  EXPECT_TRUE(contains(problem("root ::= [a"), "class that begins here"));
  EXPECT_TRUE(contains(problem("root ::= [z-a]"), "a range that rises"));
  EXPECT_TRUE(contains(problem("root ::= []"), "matches no character"));
  EXPECT_TRUE(contains(problem("root ::= (\"a\""), "expected ) for the ( at line 1, column 10"));
  EXPECT_TRUE(contains(problem("root ::= \"a\")"), "expected the end of the rule root, got ')'"));
  EXPECT_TRUE(contains(problem("root ::= \"\\q\""), "expected an escape"));
  EXPECT_TRUE(contains(problem("root ::= \"\\xZ1\""), "2 hexadecimal digits"));
  EXPECT_TRUE(contains(problem("root ::= \"\\uD800\""), "a code point"));
  EXPECT_TRUE(contains(problem("root ::= \"a\"{3,2}"), "{least,most}"));
  EXPECT_TRUE(contains(problem("root ::= \"a\"{999999999999999999999}"), "at most 100000"));
  EXPECT_TRUE(contains(problem("root ::= \"\xFF\""), "expected UTF-8"));
  EXPECT_TRUE(contains(problem("root ::= *"), "expected a text, a class, a token, a rule or ("));
}

TEST(Grammar, LeftRecursionIsRefused) {
  EXPECT_TRUE(contains(problem("root ::= root \"a\" | \"b\""), "rule root is left-recursive"));
  EXPECT_TRUE(contains(problem("root ::= a\na ::= b\nb ::= \"x\"? a"), "left-recursive"));
  EXPECT_TRUE(contains(problem("root ::= e e root\ne ::= \"x\"*"), "left-recursive"));
  EXPECT_TRUE(contains(problem("root ::= (root)?"), "left-recursive"));
  EXPECT_EQ(problem("root ::= \"a\" root | \"\""), "");
  std::string chain = "root ::= r0\n";  // long, but not recursive
  for (int i = 0; i < 5000; ++i) chain += concat("r", i, " ::= r", i + 1, " r", i + 1, "?\n");
  EXPECT_EQ(problem(chain + "r5000 ::= \"a\"\n"), "");
}

TEST(Grammar, HostileGrammarsEndSoon) {
  const ProcessorTime time;
  EXPECT_TRUE(contains(problem("root ::= " + std::string(100000, '(')), "nested too deeply"));
  EXPECT_TRUE(contains(problem("root ::= \"a\"" + std::string(100000, '*')), "nested too deeply"));
  std::string huge = "root ::= ";
  for (int i = 0; i < 210000; ++i) huge += "\"a\" ";
  EXPECT_TRUE(contains(problem(huge), "too large"));
  std::string nested = "(\"ab\" \"c\"){100000}";
  for (int i = 0; i < 12; ++i) nested = concat("(", nested, "){100000}");
  EXPECT_TRUE(contains(problem("root ::= " + nested), "too large"));
  // More ways to read a text than can be followed.
  const std::string ambiguous =
      "root ::= s\ns ::= \"a\" s p | \"a\" s q | \"\"\np ::= \"x\"\nq ::= \"x\"\n";
  EXPECT_TRUE(
      contains(error_of([&] { matches(ambiguous, std::string(40, 'a')); }), "too ambiguous"));
  // Nesting beyond the limit is not offered.
  EXPECT_FALSE(matches("root ::= \"(\" root \")\" | \"x\"", std::string(20000, '(')));
  std::mt19937 random(1);
  const std::string good =
      "root ::= item (\",\" ws item)* # list\nitem ::= [a-z]{1,3} | \"\\\"\" [^\"]* \"\\\"\"\nws "
      "::= \" \"?\n";
  int parsed = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    for (size_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % text.size();
      if (random() % 2)
        text[at] = "\"\\[]{}()|*+?:=#^-.,0a\n\xFF"[random() % 22];
      else
        text.erase(at, 1 + random() % 5);
      if (text.empty()) text = "x";
    }
    try {
      matches(text, "ab, \"c\"");
      ++parsed;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(parsed, 50);
  EXPECT_LT(time.seconds(), 20);
}

// The line of a mistake is looked for where there is one, not with every group and rule.
TEST(Grammar, LongTextsTakeLinearTime) {
  const ProcessorTime time;
  std::string groups = "root ::= ", rules = "root ::= \"a\" r0\n";
  for (int i = 0; i < 60000; ++i) groups += "(\"a\") ";
  for (int i = 0; i < 30000; ++i) rules += concat("r", i, " ::= r", i + 1, "\n");
  EXPECT_EQ(problem(groups), "");
  EXPECT_EQ(problem(rules + "r30000 ::= \"b\"\n"), "");
  EXPECT_LT(time.seconds(), 2);
}

TEST(GrammarMatcher, AllowsTheTokensThatFit) {
  const auto tokenizer = std::make_shared<ToyTokenizer>(std::vector<std::string>{
      "y", "ye", "yes", "yes!", "n", "no", "o", "es", "\xC3", "\xA9", "no"});
  GrammarMatcher matcher(Grammar::parse("root ::= \"yes\" | \"no\" | \"\u00e9\""), tokenizer);
  using Texts = std::vector<std::string>;
  EXPECT_EQ(allowed(matcher, *tokenizer), (Texts{"y", "ye", "yes", "n", "no", "\xC3", "no"}));
  GrammarMatcher copy = matcher;
  matcher.accept(*tokenizer->find("y"));
  EXPECT_EQ(allowed(matcher, *tokenizer), (Texts{"es"}));
  matcher.accept(*tokenizer->find("es"));
  EXPECT_EQ(allowed(matcher, *tokenizer), (Texts{"<end>"}));
  EXPECT_TRUE(matcher.may_end());
  matcher.accept(0);
  EXPECT_EQ(allowed(matcher, *tokenizer), Texts{});
  EXPECT_TRUE(contains(error_of([&] { matcher.accept(0); }), "after the end"));
  // A character that spans two tokens.
  copy.accept(*tokenizer->find("\xC3"));
  EXPECT_EQ(allowed(copy, *tokenizer), (Texts{"\xA9"}));
  EXPECT_TRUE(contains(error_of([&] { copy.accept(2); }), "token 2 cannot come here"));
  EXPECT_TRUE(contains(error_of([&] { copy.accept(1); }), "cannot come"));
  EXPECT_TRUE(contains(error_of([&] { copy.accept(99); }), "cannot come"));
}

// A large vocabulary of random words: masks are those of the definition, and found quickly.
std::shared_ptr<const ToyTokenizer> large_vocabulary(size_t size) {
  std::mt19937 random(2);
  std::vector<std::string> words;
  for (size_t i = 0; i < size; ++i) {
    std::string word = random() % 2 ? " " : "";
    for (size_t n = 1 + random() % 8; n > 0; --n) word += static_cast<char>('a' + random() % 26);
    if (random() % 20 == 0) word += "\":{}[],"[random() % 7];
    words.push_back(word);
  }
  return ToyTokenizer::with_bytes(words);
}

TEST(Grammar, ManyAlternatives) {
  const ProcessorTime time;
  std::string texts = "root ::= \"\"", rules, named = "root ::= r0";
  for (int i = 0; i < 12000; ++i) {
    texts += concat(" | \"item ", i * 7919 % 100003, "\"");
    if (i >= 8000) continue;  // a part of the words
    named += concat(" | r", i);
    rules += concat("r", i, " ::= \"item ", i * 7919 % 100003, "\"\n");
  }
  const std::string last = std::to_string(11999 * 7919 % 100003);
  EXPECT_TRUE(matches(texts, "item " + last));
  EXPECT_TRUE(matches(texts, ""));
  EXPECT_FALSE(matches(texts, "item "));
  EXPECT_FALSE(matches(texts, "item " + last + "!"));
  EXPECT_TRUE(matches(named + "\n" + rules, "item 7919"));
  // One text that begins another, texts that are there twice, and what follows texts.
  const std::string mixed =
      R"(root ::= "a" | "ab" [0-9] | "ab" | "b" "c" | "ab" | [x-z] "q" | "a" "z")";
  for (const char* text : {"a", "ab", "ab7", "bc", "yq", "az"})
    EXPECT_TRUE(matches(mixed, text)) << text;
  for (const char* text : {"", "b", "abc", "aab", "a7", "y", "azz"})
    EXPECT_FALSE(matches(mixed, text)) << text;
  std::string longer = "root ::= \"a\"", text = "a";
  for (int i = 0; i < 1500; ++i) longer += " | \"" + (text += 'a') + "\"";
  EXPECT_TRUE(matches(longer, std::string(1234, 'a')));
  EXPECT_FALSE(matches(longer, std::string(1234, 'a') + "b"));
  EXPECT_LT(time.seconds(), 60);
}

TEST(GrammarMatcher, TokensByName) {
  const auto tokenizer = ToyTokenizer::with_bytes({"<think>", "</think>", "ab"});
  const auto id = [&](std::string_view text) { return *tokenizer->find(text); };
  const auto accepts = [&](const char* grammar, const std::vector<int32_t>& tokens) {
    GrammarMatcher matcher(Grammar::parse(grammar), tokenizer);
    for (const int32_t token : tokens) {
      std::vector<float> logits(static_cast<size_t>(tokenizer->vocab_size()));
      matcher.mask(logits);
      EXPECT_EQ(logits[static_cast<size_t>(token)] == 0, matcher.allows(token)) << token;
      if (!matcher.allows(token)) return false;
      matcher.accept(token);
    }
    return matcher.may_end();
  };
  const int32_t a = id("a"), b = id("b"), ab = id("ab"), open = id("<think>"), end = id("</think>");
  const char* thinking = "root ::= <think> thought </think> \"b\"\nthought ::= !</think>*";
  EXPECT_TRUE(accepts(thinking, {open, a, ab, open, end, b}));
  EXPECT_FALSE(accepts(thinking, {open, a, end, end, b}));
  EXPECT_FALSE(accepts(thinking, {open, a, b}));
  EXPECT_FALSE(accepts(thinking, {id("<"), id("t")}));  // the text is not the token
  EXPECT_FALSE(accepts(thinking, {open, 1, end, b}));   // control tokens come by name only
  EXPECT_TRUE(accepts("root ::= <other> \"a\"", {1, a}));
  EXPECT_TRUE(accepts("root ::= <[1]>+", {1, 1}));
  EXPECT_TRUE(accepts("root ::= (\"ab\" | !<think>) \"b\"", {ab, b}));
  // As bytes and as a token at once.
  EXPECT_TRUE(accepts("root ::= \"a\" | !<think> \"b\"", {a}));
  EXPECT_TRUE(accepts("root ::= \"a\" | !<think> \"b\"", {a, b}));
  GrammarMatcher begin(Grammar::parse(thinking), tokenizer);
  EXPECT_EQ(allowed(begin, *tokenizer), std::vector<std::string>{"<think>"});
  const auto refused = [&](const char* grammar) {
    return error_of([&] { GrammarMatcher(Grammar::parse(grammar), tokenizer); });
  };
  EXPECT_TRUE(contains(refused("root ::= <nope>"), "<nope> is not a token"));
  EXPECT_TRUE(contains(refused("root ::= <[100000]>"), "<[100000]> is not a token"));
  EXPECT_TRUE(contains(refused("root ::= <end>"), "ends a generation"));
  EXPECT_TRUE(contains(problem("root ::= <>"), "expected a token in < >"));
  EXPECT_TRUE(contains(problem("root ::= <a"), "expected a token in < >"));
  EXPECT_TRUE(contains(problem("root ::= !x"), "expected a token in < > after !"));
  EXPECT_TRUE(contains(problem("root ::= <[99999999999]>"), "the id of a token"));
  EXPECT_TRUE(contains(problem("root ::= <[-1]>"), "the id of a token"));
}

TEST(GrammarMatcher, LargeVocabularies) {
  const auto tokenizer = large_vocabulary(128000);
  const std::string grammar = json_grammar();
  GrammarMatcher matcher(Grammar::parse(grammar), tokenizer);
  std::vector<float> logits(static_cast<size_t>(tokenizer->vocab_size()));
  double seconds = 0;
  int steps = 0;
  for (const std::string_view piece : {"{",  "\"", "ab", "\":", " ", "[",  "1", ",", "\"", "x", "y",
                                       "\"", "]",  ",",  "\"",  "k", "\"", ":", "{", "}",  "}"}) {
    std::fill(logits.begin(), logits.end(), 0.f);
    const ProcessorTime time;
    matcher.mask(logits);
    seconds += time.seconds();
    ++steps;
    for (int32_t token = 0; token < tokenizer->vocab_size(); token += 97)
      ASSERT_EQ(logits[static_cast<size_t>(token)] == 0, matcher.allows(token)) << token;
    for (const char c : piece) matcher.accept(2 + static_cast<uint8_t>(c));
  }
  EXPECT_TRUE(matcher.may_end());
  EXPECT_LT(seconds / steps, 0.05);  // a few milliseconds for a state that was not seen before
  GrammarMatcher again = matcher;
  const ProcessorTime time;
  for (int i = 0; i < 100; ++i) again.mask(logits);
  EXPECT_LT(time.seconds(), 0.5);
}

TEST(GrammarMatcher, ManyStates) {
  // Each prefix is a state of its own, so the tables have to be given up from time to time.
  GrammarMatcher matcher(Grammar::parse("root ::= \"a\" root \"x\" | \"b\" root \"y\" | \".\""),
                         bytes());
  std::mt19937 random(3);
  std::string text;
  std::vector<float> logits(258);
  for (int i = 0; i < 9000; ++i) {
    text += random() % 2 ? 'a' : 'b';
    matcher.accept(2 + text.back());
    if (i % 100 == 0) matcher.mask(logits);
  }
  matcher.accept(2 + '.');
  for (int i = 8999; i >= 0; --i) {
    if (i % 100 == 0) matcher.mask(logits);
    matcher.accept(2 + (text[static_cast<size_t>(i)] == 'a' ? 'x' : 'y'));
  }
  EXPECT_TRUE(matcher.may_end());
}

TEST(GrammarMatcher, CopiesInThreads) {
  GrammarMatcher matcher(Grammar::parse(json_grammar()), bytes());
  const auto run = [copy = matcher](std::string_view text) mutable {
    std::vector<float> logits(258);
    for (const char c : text) {
      copy.mask(logits);
      copy.accept(2 + static_cast<uint8_t>(c));
    }
    EXPECT_TRUE(copy.may_end());
  };
  std::thread one(run, R"({"a": [1, 2, {"b": null}]})"),
      two(run, R"({"c": {"d": "e\n", "f": true}})");
  one.join();
  two.join();
}

TEST(GrammarMatcher, SamplersObeyTheGrammar) {
  const auto tokenizer = large_vocabulary(2000);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Sampler sampler({.temperature = 2,
                     .top_k = 0,
                     .top_p = 1,
                     .min_p = 0,
                     .seed = seed,
                     .json_schema = R"({"type": "object", "properties": {"n": {"type": "integer",
                         "minimum": 3, "maximum": 120}, "s": {"type": "string", "maxLength": 5}},
                         "required": ["n", "s"]})"},
                    tokenizer->vocab_size(), tokenizer);
    std::string text;
    for (;;) {
      std::vector<float> logits(static_cast<size_t>(tokenizer->vocab_size()));
      const Sampled sampled = sampler.sample(logits);
      sampler.accept(sampled.token);
      if (tokenizer->is_end_of_generation(sampled.token)) break;
      text += tokenizer->bytes_of(sampled.token);
      ASSERT_LT(text.size(), 500u);
    }
    EXPECT_TRUE(sampler.may_end());
    int n = 0;
    ASSERT_EQ(std::sscanf(text.substr(text.find(':') + 1).c_str(), "%d", &n), 1) << text;
    EXPECT_TRUE(n >= 3 && n <= 120) << text;
  }
  // No way to spell what the grammar wants.
  const auto poor = std::make_shared<ToyTokenizer>(std::vector<std::string>{"a"});
  Sampler stuck({.temperature = 0, .grammar = "root ::= \"b\""}, 3, poor);
  std::vector<float> logits(3);
  EXPECT_TRUE(contains(error_of([&] { stuck.sample(logits); }), "forbids all tokens"));
}

}  // namespace
}  // namespace tensora::llm

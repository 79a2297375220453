#include "tensora/llm/grammar/json_schema.h"

#include <random>

#include "../helpers.h"
#include "../processor_time.h"
#include "tensora/llm/grammar/grammar_matcher.h"
#include "toy_tokenizer.h"

namespace tensora::llm {
namespace {

using testing::contains;
using testing::error_of;
using testing::ProcessorTime;

bool sentence(const std::string& grammar, std::string_view text) {
  static const auto bytes = ToyTokenizer::with_bytes();
  GrammarMatcher matcher(Grammar::parse(grammar), bytes);
  for (const char c : text) {
    const int32_t token = 2 + static_cast<uint8_t>(c);
    if (!matcher.allows(token)) return false;
    matcher.accept(token);
  }
  return matcher.may_end();
}

bool fits(const std::string& schema, std::string_view text) {
  return sentence(json_schema_to_grammar(schema), text);
}

std::string problem(const std::string& schema) {
  return error_of([&] { json_schema_to_grammar(schema); });
}

struct Case {
  const char* schema;
  std::vector<const char*> good, bad;
};

void check_cases(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    for (const char* text : one.good)
      EXPECT_TRUE(fits(one.schema, text)) << one.schema << "  " << text;
    for (const char* text : one.bad)
      EXPECT_FALSE(fits(one.schema, text)) << one.schema << "  " << text;
  }
}

TEST(JsonSchema, Types) {
  check_cases({
      {R"({"type": "boolean"})", {"true", "false"}, {"null", "True", ""}},
      {R"({"type": "null"})", {"null"}, {"0"}},
      {R"({"type": "number"})", {"0", "-1.5", "12e3", "1E-2"}, {"01", "1.", ".5", "+1", "NaN"}},
      {R"({"type": "integer"})", {"0", "-12", "7"}, {"-0", "1.0", "007"}},
      {R"({"type": "string"})",
       {R"("")", R"("aé😀")", R"("\n\u00e9\ud83d\ude00\"")"},
       {R"("\x")", "\"\n\"", R"("\ud83d")", R"("a)", "\"\xC3\""}},
      {R"({"type": ["string", "null"]})", {R"("a")", "null"}, {"1"}},
      {"{}", {"1", R"({"a": [1, {"b": null}]})", "[]"}, {"", "{", "[1,]"}},
      {"true", {"[true]"}, {"[true"}},
      {R"({"type": "number", "minimum": 0})", {"0.5", "3"}, {"-1"}},
  });
}

TEST(JsonSchema, Values) {
  check_cases({
      {R"({"const": {"a": [1, "x"]}})", {R"({"a":[1,"x"]})"}, {R"({"a":[1,"y"]})"}},
      {R"({"enum": ["red", "blue", 3, null]})", {R"("red")", "3", "null"}, {R"("green")", "4"}},
      {R"({"type": "string", "enum": ["a", 1]})", {R"("a")"}, {"1"}},
      {R"({"anyOf": [{"type": "integer"}, {"const": "x"}]})", {"5", R"("x")"}, {R"("y")"}},
      {R"({"oneOf": [{"type": "integer"}, {"type": "null"}]})", {"5", "null"}, {R"("y")"}},
      {R"({"allOf": [{"type": "integer"}]})", {"5"}, {"null"}},
  });
}

TEST(JsonSchema, Objects) {
  const char* two = R"({"type": "object", "properties": {"a": {"type": "integer"},
      "b": {"type": "string"}, "c": {"type": "null"}}, "required": ["b"]})";
  check_cases({
      {two,
       {R"({"b": "x"})", R"({"a": 1, "b": "x"})", R"({"a":1,"b":"x","c":null})",
        R"({ "b":"" , "c": null})"},
       {"{}", R"({"a": 1})", R"({"b": "x", "a": 1})", R"({"b": "x",})", R"({"b": "x", "d": 1})"}},
      {R"({"type": "object"})", {"{}", R"({"q": [1]})"}, {"[]"}},
      {R"({"type": "object", "properties": {}})", {"{}"}, {R"({"q": 1})"}},
      {R"({"properties": {"ab": {"type": "null"}, "ac": {"type": "null"}}, "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"x": 1, "y": 2})", R"({"ab": null, "a": 1})", R"({"ab": null, "abc": 1, "é": 3})",
        R"({"": 3})"},
       {R"({"ab": 1})", R"({"x": null})", R"({"ac": 7})", R"({"ab": null, "ac": 7})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       {R"({"a": 1})"},
       {R"({"a": null})"}},
      {R"({"type": "object", "required": ["k"], "additionalProperties": true})",
       {R"({"k": 1})", R"({"k": 1, "l": 2})"},
       {"{}", R"({"l": 2})"}},
      {R"({"type": "object", "properties": {"quo\"te": {"type": "null"}}})",
       {R"({"quo\"te": null})"},
       {}},
  });
}

TEST(JsonSchema, Arrays) {
  check_cases({
      {R"({"type": "array", "items": {"type": "integer"}})",
       {"[]", "[1]", "[1, 2,3 ]"},
       {"[null]", "[1,]"}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
       {"[1,2]", "[1,2,3]"},
       {"[1]", "[1,2,3,4]", "[]"}},
      {R"({"type": "array", "minItems": 1})", {"[{}]"}, {"[]"}},
      {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
      {R"({"prefixItems": [{"type": "null"}, {"type": "integer"}], "items": false, "minItems": 1})",
       {"[null]", "[null, 1]"},
       {"[]", "[1]", "[null, 1, 1]"}},
      {R"({"prefixItems": [{"type": "null"}], "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
       {"[null, 1]", "[null, 1, 2]"},
       {"[null]", "[null, null]", "[null,1,2,3]"}},
  });
}

TEST(JsonSchema, Texts) {
  check_cases({
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("aé")", R"("a\nb")"},
       {R"("a")", R"("abcd")"}},
      {R"({"type": "string", "format": "date"})",
       {R"("2024-02-29")"},
       {R"("2024-13-01")", R"("24-1-1")"}},
      {R"({"type": "string", "format": "date-time"})",
       {R"("2024-02-29T12:00:00Z")", R"("2024-02-29T23:59:59.5+02:00")"},
       {R"("2024-02-29 12:00")"}},
      {R"({"type": "string", "format": "uuid"})",
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123e4567")"}},
      {R"({"type": "string", "format": "ipv4"})",
       {R"("192.168.0.255")"},
       {R"("256.1.1.1")", R"("01.1.1.1")"}},
      {R"({"type": "string", "format": "email"})",
       {R"("a.b@example.org")"},
       {R"("a@b")", R"("@x.y")"}},
      {R"({"type": "string", "pattern": "^[a-z]{2,3}-\\d+$"})",
       {R"("ab-1")", R"("abc-123")"},
       {R"("a-1")", R"("ab-")", R"("ab-1x")"}},
      {R"({"type": "string", "pattern": "b|^c$"})", {R"("abc")", R"("c")"}, {R"("a")", R"("cc")"}},
      {R"({"type": "string", "pattern": "^(?:\"|\\\\|\\n)\\S$"})",
       {R"("\"x")", R"("\\x")", R"("\nx")"},
       {R"("ax")", R"("\" ")"}},
      {R"({"type": "string", "pattern": "^[^0-9\\s]?.$"})",
       {R"("aé")", R"("x")"},
       {R"("11")", R"("")"}},
      {R"({"type": "string", "pattern": "^\\u0041\\x42\\.(x(y|z)?)*$"})",
       {R"("AB.xxyxz")"},
       {R"("ABxx")"}},
  });
}

TEST(JsonSchema, IntegersInRanges) {
  std::mt19937 random(4);
  for (int round = 0; round < 150; ++round) {
    const int width = round < 100 ? 400 : 100000;
    int least = static_cast<int>(random() % (2 * width)) - width,
        most = least + static_cast<int>(random() % width);
    const bool open_below = random() % 5 == 0, open_above = random() % 5 == 0;
    std::string schema = R"({"type": "integer")";
    if (!open_below) schema += concat(", \"minimum\": ", least);
    if (!open_above) schema += concat(", \"maximum\": ", most);
    const std::string grammar = json_schema_to_grammar(schema + "}");
    for (int i = 0; i < 20; ++i) {
      const int candidates[] = {least - 1,
                                least,
                                least + 1,
                                most - 1,
                                most,
                                most + 1,
                                0,
                                -1,
                                9,
                                10,
                                99,
                                100,
                                static_cast<int>(random() % (3 * width)) - width};
      for (const int value : candidates) {
        const bool in = (open_below || value >= least) && (open_above || value <= most);
        ASSERT_EQ(sentence(grammar, std::to_string(value)), in) << schema << " " << value;
      }
      if (width > 400 || i > 2) break;
    }
    ASSERT_FALSE(sentence(grammar, "00"));
    ASSERT_FALSE(sentence(grammar, "-0"));
  }
  check_cases({
      {R"({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10})",
       {"1", "9"},
       {"0", "10"}},
      {R"({"type": "integer", "minimum": 0.5, "maximum": 2.5})", {"1", "2"}, {"0", "3"}},
  });
}

// The decimal text of `value` thousandths.
std::string decimal(int64_t value, int digits) {
  std::string out = value < 0 ? "-" : "";
  const std::string fraction = std::to_string(1000 + std::abs(value) % 1000).substr(1);
  out += std::to_string(std::abs(value) / 1000);
  return digits == 0 ? out : out + "." + fraction.substr(0, static_cast<size_t>(digits));
}

TEST(JsonSchema, NumbersInRanges) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const int width = round % 2 == 0 ? 3000 : 300000;
    const int step = round % 3 == 0 ? 1000 : round % 3 == 1 ? 10 : 1;
    const auto rounded = [&](int64_t value) { return value / step * step; };
    const int64_t least = rounded(static_cast<int>(random() % (2 * width)) - width);
    const int64_t most = rounded(least + 2 * step + static_cast<int>(random() % width));
    const bool open_below = random() % 5 == 0, open_above = random() % 5 == 0;
    const bool strictly = random() % 2 == 0;
    std::string schema = R"({"type": "number")";
    const char* low = strictly ? ", \"exclusiveMinimum\": " : ", \"minimum\": ";
    const char* high = strictly ? ", \"exclusiveMaximum\": " : ", \"maximum\": ";
    if (!open_below) schema += low + decimal(least, 3);
    if (!open_above) schema += high + decimal(most, 3);
    if (open_below && open_above) continue;
    const std::string grammar = json_schema_to_grammar(schema + "}");
    for (const int64_t near : {least, most, int64_t{0}, rounded(least / 2 + most / 2)})
      for (const int64_t off : {-1000, -100, -10, -1, 0, 1, 9, 10, 100, 999, 1000}) {
        const int64_t value = near + off;
        const bool in = (open_below || value > least || (value == least && !strictly)) &&
                        (open_above || value < most || (value == most && !strictly));
        ASSERT_EQ(sentence(grammar, decimal(value, 3)), in) << schema << " " << decimal(value, 3);
        ASSERT_EQ(sentence(grammar, decimal(value, 3) + "000"), in) << schema << " " << value;
        if (value % 1000 == 0) {
          ASSERT_EQ(sentence(grammar, decimal(value, 0)), in) << schema << " " << value;
        }
      }
    ASSERT_FALSE(sentence(grammar, "00.5"));
    ASSERT_FALSE(sentence(grammar, "1."));
  }
  check_cases({
      {R"({"type": "number", "minimum": 0, "maximum": 1})",
       {"0", "1", "0.5", "1.0", "0.0"},
       {"1.01", "-0.1", "2", "1e0"}},
      {R"({"type": "number", "exclusiveMinimum": 0})", {"0.001", "7"}, {"0", "0.00", "-1"}},
      {R"({"type": "number", "minimum": 1, "exclusiveMinimum": 1})", {"1.5"}, {"1"}},
  });
}

TEST(JsonSchema, AllOfIsEnforced) {
  check_cases({
      {R"({"allOf": [{"type": "integer", "minimum": 3}, {"type": "number", "maximum": 5}]})",
       {"3", "5"},
       {"2", "6", "4.5"}},
      {R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                     {"properties": {"b": {"type": "null"}, "a": {"minimum": 2}}, "required": ["b"]}]})",
       {R"({"a": 2, "b": null})"},
       {R"({"a": 1, "b": null})", R"({"a": 2})", R"({"b": null})"}},
      {R"({"$ref": "#/$defs/s", "maxLength": 2, "$defs": {"s": {"type": "string", "minLength": 1}}})",
       {R"("ab")"},
       {R"("")", R"("abc")"}},
      {R"({"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 2}]})",
       {"10", "2"},
       {"5", "10.5"}},
      {R"({"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]})", {"2", "3"}, {"1", "4"}},
      {R"({"allOf": [{}, {"type": "null"}, true]})", {"null"}, {"1"}},
      {R"({"allOf": [{"anyOf": [{"minimum": 5}, {"minimum": 7}]}, {"anyOf": [{"maximum": 9},
           {"maximum": 8}]}], "type": "integer"})",
       {"5", "9"},
       {"4", "10"}},
  });
}

TEST(JsonSchema, UniqueItems) {
  check_cases({
      {R"({"items": {"enum": ["a", "b", 3]}, "uniqueItems": true})",
       {"[]", R"(["a"])", R"([3, "a"])", R"(["b","a",3])"},
       {R"(["a","a"])", R"([3, "b", 3])", R"(["a",])"}},
      {R"({"items": {"enum": [1, 2, 3]}, "uniqueItems": true, "minItems": 2, "maxItems": 2})",
       {"[1,2]", "[3, 1]"},
       {"[]", "[1]", "[2,2]", "[1,2,3]"}},
      {R"({"items": {"type": "integer"}, "uniqueItems": true, "maxItems": 1})", {"[1]"}, {"[1,1]"}},
      {R"({"items": {"type": "integer"}, "uniqueItems": false})", {"[1,1]"}, {}},
  });
}

TEST(JsonSchema, DatesAndUris) {
  check_cases({
      {R"({"type": "string", "format": "date"})",
       {R"("2024-02-29")", R"("2000-02-29")", R"("2023-02-28")", R"("2023-04-30")",
        R"("1999-12-31")", R"("2023-10-01")"},
       {R"("2024-02-30")", R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")",
        R"("2023-00-10")", R"("2023-11-31")", R"("2023-01-00")", R"("2023-01-32")"}},
      {R"({"type": "string", "format": "uri"})",
       {R"("https://example.org/a/b?x=1&y=%20#z")", R"("http://u@h:80")", R"("mailto:a@b.c")",
        R"("urn:isbn:0451450523")", R"("ftp://10.0.0.1/")"},
       {R"("example.org")", R"("http://")", R"("http://a b")", R"("://x")", R"("http://a/%2")"}},
  });
  // As the calendar has it, over two centuries.
  const std::string grammar = json_schema_to_grammar(R"({"type": "string", "format": "date"})");
  for (int year = 1896; year <= 2104; year += 4)
    for (int day = 28; day <= 30; ++day) {
      const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
      EXPECT_EQ(sentence(grammar, concat("\"", year, "-02-", day, "\"")), day <= (leap ? 29 : 28))
          << year << " " << day;
    }
}

TEST(JsonSchema, References) {
  check_cases({
      {R"({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"},
          "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["v", "next"]}}})",
       {R"({"v": 1, "next": {"v": 2, "next": null}})"},
       {R"({"v": 1, "next": {"v": 2}})"}},
      {R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[], [[]]]"}, {"[1]"}},
      {R"({"definitions": {"a b": {"type": "null"}}, "items": {"$ref": "#/definitions/a b"}})",
       {"[null]"},
       {"[1]"}},
  });
  EXPECT_TRUE(contains(problem(R"({"$ref": "#/nowhere"})"), "leads nowhere: #/nowhere"));
  EXPECT_TRUE(contains(problem(R"({"$ref": "http://x/y"})"), "must begin with #"));
  EXPECT_TRUE(contains(error_of([] { fits(R"({"$ref": "#"})", ""); }), "left-recursive"));
}

TEST(JsonSchema, WhatIsNotSupportedIsRefusedByName) {
  const auto refuses = [](const char* schema, const char* words) {
    EXPECT_TRUE(contains(problem(schema), words)) << problem(schema) << " lacks " << words;
  };
  refuses(R"({"type": "object", "properties": {"a": {"not": {}}}})",
          "#/properties/a: the keyword not is");
  refuses(R"({"type": "object", "patternProperties": {}})", "patternProperties");
  refuses(R"({"type": "array", "uniqueItems": true})", "uniqueItems");
  refuses(R"({"type": "array", "items": {"type": "integer"}, "uniqueItems": true})",
          "#: uniqueItems is supported for items that are an enum");
  refuses(
      R"({"properties": {"a": {"items": {"enum": [1, 2]}, "uniqueItems": true, "minItems": 3}}})",
      "#/properties/a: expected minItems of up to 2");
  refuses(R"({"type": "number", "minimum": "3"})", "minimum to be a number");
  refuses(R"({"type": "number", "minimum": 3, "maximum": 2})", "no number is within the bounds");
  refuses(R"({"type": "number", "exclusiveMinimum": 3, "maximum": 3})", "no number is within");
  refuses(R"({"type": "number", "maximum": 1e300})", "less than 1e15");
  refuses(R"({"type": "number", "maximum": 1e-30})", "digits after the point");
  refuses(R"({"type": "integer", "multipleOf": 3})", "multipleOf");
  refuses(R"({"type": "string", "format": "regex"})", "got regex");
  refuses(R"~({"type": "string", "pattern": "(?=a)"})~", "group of a kind");
  refuses(R"({"type": "string", "pattern": "a\\b"})", "the escape \\b");
  refuses(R"({"type": "string", "pattern": "a*?"})", "lazy");
  refuses(R"({"type": "string", "pattern": "("})", "unmatched (");
  refuses(R"({"type": "string", "pattern": "a", "minLength": 1})", "only one at a time");
  refuses(R"({"allOf": [{"type": "integer"}, {"type": "string"}]})", "exclude one another");
  refuses(R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}], "type": "string"})",
          "#: allOf of schemas that differ in pattern");
  refuses(R"({"allOf": [{"properties": {"a": {}}, "additionalProperties": false},
                        {"properties": {"b": {}}}]})",
          "#: allOf with additionalProperties");
  refuses(R"({"allOf": [{"$ref": "#"}]})", "lead back to themselves");
  refuses(R"({"allOf": [{"not": {}}]})", "the keyword not");
  refuses(R"({"$ref": "#/$defs/a", "allOf": [{"$ref": "#/$defs/a"}],
              "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]},
                        "b": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}})",
          "allOf");
  refuses(R"({"type": "text"})", "expected a type of JSON, got text");
  refuses(R"({"type": 3})", "expected type to be a text");
  refuses(R"({"anyOf": []})", "not empty");
  refuses(R"({"enum": []})", "allows nothing");
  refuses(R"({"minimum": 3})", "expected a type beside minimum");
  refuses(R"({"unknown": 3})", "the keyword unknown");
  refuses(R"({"type": "array", "minItems": -1})", "minItems to be a count");
  refuses(R"({"type": "array", "minItems": 3, "maxItems": 2})", "minItems <= maxItems");
  refuses(R"({"type": "integer", "minimum": 3, "maximum": 2})", "minimum <= maximum");
  refuses(R"({"type": "integer", "minimum": 1e30})", "18 digits");
  refuses(R"({"type": "object", "required": ["x"], "additionalProperties": false})",
          "required names x");
  refuses("false", "allows nothing");
  refuses("[1]", "expected an object");
  refuses("{", "expected JSON");
  refuses("\"\xFF\"", "expected JSON");
}

TEST(JsonSchema, HostileSchemasEndSoon) {
  const ProcessorTime time;
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "[";
  EXPECT_TRUE(contains(problem(deep), "nested deeper"));
  deep.clear();
  for (int i = 0; i < 60; ++i) deep += R"({"type": "array", "items": )";
  EXPECT_EQ(problem(deep + "{}" + std::string(60, '}')), "");
  for (int i = 0; i < 20; ++i) deep += R"({"type": "array", "items": )";
  EXPECT_TRUE(contains(problem(deep + "{}" + std::string(80, '}')), "nested deeper"));
  std::string wide = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 15000; ++i) wide += concat(i ? "," : "", "\"p", i, "\": {}");
  EXPECT_TRUE(contains(problem(wide + "}}"), "too large"));
  EXPECT_TRUE(contains(
      error_of([] {
        fits(
            R"({"items": {"items": {"items": {"maxItems": 100000}, "maxItems": 100000}, "maxItems": 100000}})",
            "[");
      }),
      ""));
  std::mt19937 random(5);
  const std::string good =
      R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]+$"},
      "b": {"anyOf": [{"$ref": "#/properties/a"}, {"type": "integer", "minimum": 3}]}}, "required": ["a"]})";
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (size_t n = 1 + random() % 3; n > 0; --n)
      text[random() % text.size()] = "\"{}[]:,0a^$#/\\-"[random() % 15];
    error_of([&] { fits(text, "{\"a"); });
  }
  EXPECT_LT(time.seconds(), 20);
}

TEST(JsonSchema, AnyObject) {
  const std::string grammar = json_grammar();
  EXPECT_TRUE(sentence(grammar, R"({"a": [1, 2.5, {"b": null}], "c": "x"})"));
  EXPECT_FALSE(sentence(grammar, "[]"));
  EXPECT_FALSE(sentence(grammar, R"({"a" 1})"));
}

}  // namespace
}  // namespace tensora::llm

#include "tensora/serve/json_fields.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tensora/base/check.h"
#include "tensora/serve/router.h"

namespace tensora::serve {
namespace {

ApiError error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ApiError& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {0, ""};
}

TEST(ParseBody, RefusesWhatIsNoObject) {
  for (const char* body : {"", "[]", "1", "{", "{\"a\":}", "{\"a\":1}x", "\xff", "{\"a\":NaN}"})
    EXPECT_EQ(error_of([&] { parse_body(body); }).status, 400) << body;
}

TEST(ParseBody, KeepsTheOrderOfNames) {
  EXPECT_EQ(parse_body(R"({"b":1,"a":{"z":2,"y":3}})").dump(), R"({"b":1,"a":{"z":2,"y":3}})");
}

TEST(ParseBody, RefusesObjectsWithVeryManyNames) {
  std::string body = "{";
  for (int i = 0; i < 20'000; ++i) body += concat(i > 0 ? "," : "", "\"", i, "\":1");
  EXPECT_EQ(error_of([&] { parse_body(body + "}"); }).status, 400);
}

// Small in text, large in memory.
TEST(ParseBody, BoundsWhatItBecomes) {
  const auto list = [](const char* one, int count) {
    std::string body = concat("{\"a\":[", one);
    for (int i = 1; i < count; ++i) body += concat(",", one);
    return body + "]}";
  };
  // In time that grows with their number, not with its square.
  const auto begin = std::chrono::steady_clock::now();
  for (const char* one : {"[]", "{}"}) EXPECT_NO_THROW(parse_body(list(one, 49'998)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  for (const char* one : {"[]", "{}", "[1]", R"({"":0})"})
    EXPECT_NE(std::string(error_of([&] { parse_body(list(one, 50'000)); }).what())
                  .find("50000 lists and objects"),
              std::string::npos)
        << one;
  EXPECT_NO_THROW(parse_body(list("1", 1'000'000)));
  EXPECT_NE(std::string(error_of([&] { parse_body(list("1", 4'000'001)); }).what())
                .find("4000000 values"),
            std::string::npos);
}

TEST(ParseBody, RefusesDepthAndNamesGivenTwice) {
  const auto nested = [](size_t levels) {
    return concat("{\"a\":", std::string(levels, '['), std::string(levels, ']'), "}");
  };
  EXPECT_NO_THROW(parse_body(nested(99)));
  EXPECT_EQ(error_of([&] { parse_body(nested(100)); }).status, 400);
  EXPECT_EQ(error_of([&] { parse_body(nested(1000000)); }).status, 400);
  EXPECT_EQ(error_of([] { parse_body(R"({"a":1,"a":2})"); }).param, "a");
  EXPECT_NO_THROW(parse_body(R"({"a":{"a":1},"b":[{"a":1},{"a":1}]})"));
}

TEST(FieldsTest, NamesThePathOfAMistake) {
  const Json good =
      Json::parse(R"({"n": 1.5, "t": {"x": "y"}, "s": 3, "big": 18446744073709551615})");
  Fields fields(good);
  EXPECT_EQ(error_of([&] { fields.integer("n", 0, 9); }).param, "n");
  EXPECT_EQ(error_of([&] { fields.integer("s", 0, 2); }).param, "s");
  EXPECT_EQ(error_of([&] { fields.integer("big"); }).param, "big");
  EXPECT_EQ(error_of([&] { fields.text("s"); }).param, "s");
  EXPECT_EQ(error_of([&] { fields.number("s", 0, 2); }).param, "s");
  EXPECT_EQ(error_of([&] { fields.at("absent"); }).param, "absent");
  auto inner = *fields.object("t");
  EXPECT_EQ(error_of([&] { inner.integer("x"); }).param, "t.x");
  EXPECT_EQ(error_of([&] { inner.choice("x", {"a", "b"}); }).param, "t.x");
}

// What is wrong is not sent back whole: it may have megabytes.
TEST(FieldsTest, QuotesLittleInErrors) {
  const std::string long_text(100'000, 'x');
  const Json body = {{"role", long_text}};
  const auto error = error_of([&] { Fields(body).choice("role", {"user"}); });
  EXPECT_LT(std::string(error.what()).size(), 200u);
  const ApiError twice =
      error_of([&] { parse_body(concat("{\"", long_text, "\":1,\"", long_text, "\":2}")); });
  EXPECT_LT(std::string(twice.what()).size() + twice.param.size(), 200u);
  const ApiError wrong = error_of([&] { parse_body(concat("{\"a\":\"", long_text, "\x01\"}")); });
  EXPECT_LT(std::string(wrong.what()).size(), 300u);
  EXPECT_NE(std::string(wrong.what()).find("line 1"), std::string::npos) << wrong.what();
}

TEST(FieldsTest, KnowsWhatNobodyRead) {
  const Json body = Json::parse(R"({"a": 1, "b": 2.0, "c": null, "d": 3, "e": 4})");
  Fields fields(body);
  EXPECT_EQ(fields.integer("a"), 1);
  EXPECT_EQ(fields.integer("b"), 2);
  EXPECT_EQ(fields.integer("c"), std::nullopt);
  fields.accept({"d"});
  EXPECT_EQ(fields.unread(), std::vector<std::string>{"e"});
}

TEST(FieldsTest, KnowsWhatNobodyReadInside) {
  const Json body =
      Json::parse(R"({"a": {"x": 1, "y": {"z": 2}}, "b": [{"c": 3}], "d": {"e": 4}})");
  Fields fields(body);
  {
    auto inner = fields.object("a");
    inner->object("y");
    Fields moved = std::move(*inner);
    for (const Json& one : *fields.list("b", 9)) fields.below(one, "b[0]").integer("c");
    moved.accept({"w"});
  }
  fields.find("d");  // as a value, whose names are its own
  EXPECT_EQ(fields.unread(), (std::vector<std::string>{"a.y.z", "a.x"}));
  Fields(body["a"], "a").has("x");
  EXPECT_EQ(fields.unread().size(), 2u);
}

TEST(RouterTest, FindsPathsAndSaysWhichMethodsTheyHave) {
  Router router;
  router.add({.method = "GET", .path = "/v1/models"});
  router.add({.method = "GET", .path = "/v1/models/{id}"});
  router.add({.method = "POST", .path = "/v1/models"});
  EXPECT_THROW(router.add({.method = "POST", .path = "/v1/models"}), Error);
  std::string parameter, allowed;
  EXPECT_EQ(router.find("POST", "/v1/models", parameter, allowed), &router.routes()[2]);
  EXPECT_EQ(router.find("HEAD", "/v1/models", parameter, allowed), &router.routes()[0]);
  EXPECT_EQ(router.find("PUT", "/v1/models", parameter, allowed), nullptr);
  EXPECT_EQ(allowed, "GET, POST");
  EXPECT_EQ(router.find("GET", "/v1/models/a/b", parameter, allowed), &router.routes()[1]);
  EXPECT_EQ(parameter, "a/b");
  EXPECT_EQ(router.find("GET", "/v1/models/", parameter, allowed), nullptr);
  EXPECT_EQ(router.find("GET", "/v2", parameter, allowed), nullptr);
}

}  // namespace
}  // namespace tensora::serve

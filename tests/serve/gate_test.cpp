#include "tensora/serve/gate.h"

#include <gtest/gtest.h>

#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

HttpRequest request(const std::string& method, Headers headers = {}) {
  headers.insert(headers.begin(), {"host", "localhost:8080"});
  return {.method = method, .path = "/v1/models", .headers = std::move(headers)};
}

// 0: allowed.
int status(const Gate& gate, const HttpRequest& head, bool is_public = false) {
  try {
    gate.check(head, is_public);
    return 0;
  } catch (const ApiError& error) {
    return error.status;
  }
}

int status_for_host(const Gate& gate, const std::string& host) {
  return status(gate, {.method = "GET", .path = "/", .headers = {{"host", host}}});
}

TEST(ApiKeys, AreReadFromLines) {
  const auto keys = parse_api_keys("# team\n\nalice:sk-alice-1\r\n  sk-12345678  \n", "keys.txt");
  ASSERT_EQ(keys.size(), 2);
  EXPECT_EQ(keys[0].name, "alice");
  EXPECT_EQ(keys[0].key, "sk-alice-1");
  EXPECT_EQ(keys[1].name, "key-4");
  EXPECT_EQ(keys[1].key, "sk-12345678");
  EXPECT_TRUE(parse_api_keys("\n# nothing\n", "keys.txt").empty());
}

TEST(ApiKeys, MistakesNameTheLineAndHideTheKey) {
  for (const char* text :
       {"ok:12345678\na b:12345678", "ok:12345678\nb:short", "ok:12345678\nb:with space",
        "ok:12345678\nok:abcdefgh", "ok:12345678\nb:12345678", "ok:12345678\n:12345678x",
        "ok:12345678\nb:\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"}) {
    try {
      parse_api_keys(text, "keys.txt");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("line 2 of keys.txt"), std::string::npos) << what;
      EXPECT_EQ(what.find("12345678"), std::string::npos) << what;
    }
  }
}

TEST(Gate, AsksForAKey) {
  const Gate gate({.keys = {{"alice", "sk-alice-1"}, {"bob", "sk-bob-2"}}});
  EXPECT_EQ(status(gate, request("GET")), 401);
  EXPECT_EQ(status(gate, request("GET"), /*is_public=*/true), 0);
  for (const char* wrong : {"Bearer sk-alice-2", "Bearer sk-alice-", "Bearer sk-alice-11", "Bearer",
                            "Bearer ", "Basic sk-alice-1", "sk-alice-1", ""})
    EXPECT_EQ(status(gate, request("GET", {{"authorization", wrong}})), 401) << wrong;
  EXPECT_EQ(gate.check(request("GET", {{"authorization", "Bearer sk-alice-1"}}), false), "alice");
  EXPECT_EQ(gate.check(request("GET", {{"authorization", "bearer  sk-bob-2"}}), false), "bob");
  EXPECT_EQ(gate.check(request("GET", {{"x-api-key", "sk-bob-2"}}), false), "bob");
  EXPECT_EQ(status(gate, request("GET", {{"x-api-key", "sk-bob-3"}})), 401);
  // A wrong Authorization is not made good by the other header.
  EXPECT_EQ(
      status(gate, request("GET", {{"authorization", "Bearer no"}, {"x-api-key", "sk-bob-2"}})),
      401);
}

TEST(Gate, WithoutKeysEverybodyMayAsk) {
  const Gate gate({});
  EXPECT_EQ(gate.check(request("GET"), false), "");
  EXPECT_EQ(gate.check(request("GET", {{"authorization", "Bearer none"}}), false), "");
}

TEST(Gate, KnowsAddressesOfThisMachine) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1", "::1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"", "0.0.0.0", "::", "127.example.com", "127.0.0.1.nip.io", "192.0.2.1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(Gate, KnowsItsHosts) {
  const Gate local({.host_names = {"box.lan", "other:90"}});
  for (const char* host : {"localhost", "localhost:1", "LOCALHOST", "127.0.0.1:8080", "[::1]:8080",
                           "[::1]", "box.lan", "Box.LAN:80", "other"})
    EXPECT_EQ(status_for_host(local, host), 0) << host;
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.2", "127.0.0.1.nip.io", "[::2]",
        "xlocalhost", "box.lan.evil", "[::1]evil.example", "[::1", "[", "localhost:evil.example",
        "localhost:80:90"})
    EXPECT_EQ(status_for_host(local, host), 403) << host;
  const Gate open({.is_loopback = false});
  EXPECT_EQ(status_for_host(open, "any.example"), 0);
  const Gate named({.is_loopback = false, .host_names = {"api.example"}});
  EXPECT_EQ(status_for_host(named, "api.example"), 0);
  EXPECT_EQ(status_for_host(named, "any.example"), 403);
}

TEST(Gate, RefusesPagesOfOtherOrigins) {
  const Gate gate({.cors_origins = {"https://chat.example"}});
  const auto with = [&](Headers headers, bool is_public = false) {
    return status(gate, request("GET", std::move(headers)), is_public);
  };
  EXPECT_EQ(with({{"origin", "http://localhost:8080"}}), 0);
  EXPECT_EQ(with({{"origin", "https://localhost:8080"}}), 0);
  EXPECT_EQ(with({{"origin", "http://localhost:3000"}}), 403);
  EXPECT_EQ(with({{"origin", "null"}}), 403);
  EXPECT_EQ(with({{"origin", "https://evil.example"}}), 403);
  EXPECT_EQ(with({{"origin", "https://evil.example"}}, true), 403);
  EXPECT_EQ(with({{"origin", "https://chat.example"}, {"sec-fetch-site", "cross-site"}}), 0);
  EXPECT_EQ(with({{"sec-fetch-site", "cross-site"}}), 403);
  EXPECT_EQ(with({{"sec-fetch-site", "same-origin"}}), 0);
  EXPECT_EQ(with({{"sec-fetch-site", "none"}}), 0);
  const Headers link = {{"sec-fetch-site", "cross-site"}, {"sec-fetch-mode", "navigate"}};
  EXPECT_EQ(with(link, true), 0);
  EXPECT_EQ(with(link, false), 403);
}

TEST(Gate, TakesOnlyJson) {
  const Gate gate({});
  const auto of_type = [&](const char* type) {
    return status(gate, request("POST", {{"content-type", type}}));
  };
  EXPECT_EQ(of_type("application/json"), 0);
  EXPECT_EQ(of_type("Application/JSON; charset=utf-8"), 0);
  for (const char* type :
       {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
        "application/jsonx", "text/plain;application/json"})
    EXPECT_EQ(of_type(type), 415) << type;
}

TEST(Gate, LimitsRequestsAtOnce) {
  Gate gate(
      {.keys = {{"a", "12345678"}, {"b", "23456789"}}, .max_active = 3, .max_active_per_key = 2});
  const auto first = gate.admit("a");
  auto second = gate.admit("a");
  try {
    gate.admit("a");
    ADD_FAILURE();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 429);
    EXPECT_EQ(error.headers, (Headers{{"retry-after", "1"}}));
  }
  const auto other = gate.admit("b");
  EXPECT_THROW(gate.admit("b"), ApiError) << "three of all";
  second.reset();
  EXPECT_NE(gate.admit("a"), nullptr);
}

TEST(Gate, AllowsOriginsByName) {
  const Gate gate({.cors_origins = {"https://chat.example"}});
  const auto names = [](const HttpResponse& response) {
    std::string text;
    for (const auto& [name, value] : response.headers) text += name + "=" + value + "\n";
    return text;
  };
  const std::string allowed = names(gate.preflight(
      request("OPTIONS", {{"origin", "https://chat.example"},
                          {"access-control-request-headers", "authorization,x-stainless-os"}}),
      "POST"));
  EXPECT_NE(allowed.find("access-control-allow-origin=https://chat.example\n"), std::string::npos);
  EXPECT_NE(allowed.find("access-control-allow-headers=authorization,x-stainless-os\n"),
            std::string::npos);
  EXPECT_NE(allowed.find("vary=origin\n"), std::string::npos);
  // Pages see no other header than these.
  EXPECT_NE(
      allowed.find("access-control-expose-headers=x-request-id, retry-after, x-tensora-ignored\n"),
      std::string::npos);
  EXPECT_EQ(allowed.find("credentials"), std::string::npos);
  const std::string foreign =
      names(gate.preflight(request("OPTIONS", {{"origin", "https://evil.example"}}), "POST"));
  EXPECT_EQ(foreign, "allow=POST, OPTIONS\n");
  EXPECT_TRUE(gate.cors_headers(request("GET", {{"origin", "https://evil.example"}})).empty());
  EXPECT_TRUE(gate.cors_headers(request("GET")).empty());
}

}  // namespace
}  // namespace tensora::serve

#include "tensora/serve/page_routes.h"

#include <gtest/gtest.h>

namespace tensora::serve {
namespace {

class KeptReply : public Reply {
 public:
  void send(HttpResponse response) override { sent = std::move(response); }
  void begin(HttpResponse /*head*/) override {}
  void write(std::string_view /*bytes*/) override {}
  void end() override {}
  size_t unsent() const override { return 0; }
  bool is_gone() const override { return false; }
  void on_gone(std::function<void()> /*callback*/) override {}
  HttpResponse sent;
};

HttpResponse get(const Headers& headers) {
  Router router;
  add_page_routes(router);
  std::string parameter, allowed;
  const Route* route = router.find("GET", "/", parameter, allowed);
  EXPECT_NE(route, nullptr);
  EXPECT_TRUE(route->is_public);
  auto reply = std::make_shared<KeptReply>();
  Exchange exchange;
  exchange.request.headers = headers;
  exchange.reply = reply;
  route->handle(exchange);
  return reply->sent;
}

std::string header_of(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return {};
}

TEST(PageRoutes, ServesThePageCompressedWhereThatIsAccepted) {
  const HttpResponse plain = get({});
  EXPECT_EQ(plain.status, 200);
  EXPECT_EQ(plain.content_type, "text/html; charset=utf-8");
  EXPECT_TRUE(plain.body.starts_with("<!doctype html>"));
  EXPECT_LE(plain.body.size(), 100'000u);
  EXPECT_EQ(header_of(plain, "content-encoding"), "");
  for (const char* refused : {"gzip;q=0", "gzip; q=0.000, br", "br", "xgzip", ""})
    EXPECT_EQ(get({{"accept-encoding", refused}}).body, plain.body) << refused;
  for (const char* accepted : {"gzip", "br, gzip;q=0.5", "deflate ,gzip , br"}) {
    const HttpResponse packed = get({{"accept-encoding", accepted}});
    EXPECT_EQ(header_of(packed, "content-encoding"), "gzip") << accepted;
    EXPECT_TRUE(packed.body.starts_with("\x1f\x8b"));
    EXPECT_LT(packed.body.size(), plain.body.size() / 2);
    EXPECT_NE(header_of(packed, "etag"), header_of(plain, "etag"));
  }
}

TEST(PageRoutes, SaysWhenTheClientHasThePage) {
  const std::string tag = header_of(get({}), "etag");
  ASSERT_GT(tag.size(), 10u);
  for (const std::string& known : {tag, "W/" + tag, "\"x\", " + tag, std::string("*")}) {
    const HttpResponse same = get({{"if-none-match", known}});
    EXPECT_EQ(same.status, 304) << known;
    EXPECT_EQ(same.body, "");
    EXPECT_EQ(header_of(same, "etag"), tag);
  }
  EXPECT_EQ(get({{"if-none-match", "\"x\""}}).status, 200);
  // Another representation has another tag.
  EXPECT_EQ(get({{"if-none-match", tag}, {"accept-encoding", "gzip"}}).status, 200);
}

TEST(PageRoutes, AllowsOnlyItsOwnScriptAndStyle) {
  const HttpResponse response = get({});
  const std::string policy = header_of(response, "content-security-policy");
  for (const char* part :
       {"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "connect-src 'self'",
        "img-src data:", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'none'"})
    EXPECT_NE(policy.find(part), policy.npos) << part;
  EXPECT_EQ(policy.find("unsafe"), policy.npos);
  EXPECT_EQ(header_of(response, "x-content-type-options"), "nosniff");
  EXPECT_EQ(header_of(response, "referrer-policy"), "no-referrer");
}

}  // namespace
}  // namespace tensora::serve

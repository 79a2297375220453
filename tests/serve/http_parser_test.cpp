#include "tensora/serve/http_parser.h"

#include <gtest/gtest.h>

#include "tensora/serve/api_error.h"

namespace tensora::serve {
namespace {

// The status that a request is refused with, given in portions of so many bytes; 0: it is good,
// -1: it is not complete.
int read(std::string_view bytes, size_t portion = 1 << 20, HttpRequest* out = nullptr,
         std::string* rest = nullptr) {
  HttpParser parser{HttpLimits{.body_bytes = 100}};
  std::string input;
  bool has_head = false, is_whole = false;
  try {
    while (!bytes.empty() && !is_whole) {
      input += bytes.substr(0, portion);
      bytes.remove_prefix(std::min(portion, bytes.size()));
      if (!has_head) has_head = parser.read_head(input);
      if (has_head) is_whole = parser.read_body(input);
    }
  } catch (const ApiError& error) {
    return error.status;
  }
  if (out) *out = std::move(parser.request());
  if (rest) *rest = input + std::string(bytes);
  return is_whole ? 0 : -1;
}

std::string post(const std::string& headers, const std::string& body = "") {
  return "POST /v1/x HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n" + body;
}

struct Case {
  const char* what;
  int status;
  std::string bytes;
};

const std::vector<Case>& heads() {
  static const std::vector<Case> all = {
      {"plain", 0, post("Content-Length: 5\r\n", "abcde")},
      {"no body", 0, post("")},
      {"spaces around a value", 0, post("Content-Length: \t 2 \t\r\n", "ab")},
      {"length beside coding", 400, post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")},
      {"coding beside length", 400, post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n")},
      {"two lengths", 400, post("Content-Length: 5\r\nContent-Length: 6\r\n", "abcdef")},
      {"the same length twice", 400, post("Content-Length: 2\r\nContent-Length: 2\r\n", "ab")},
      {"a list of lengths", 400, post("Content-Length: 2, 2\r\n", "ab")},
      {"length with a sign", 400, post("Content-Length: +5\r\n", "abcde")},
      {"negative length", 400, post("Content-Length: -1\r\n")},
      {"huge length", 400, post("Content-Length: 100000000000000000000\r\n")},
      {"length in hexadecimal", 400, post("Content-Length: 0x5\r\n")},
      {"empty length", 400, post("Content-Length: \r\n")},
      {"length beyond the limit", 413, post("Content-Length: 101\r\n")},
      {"bare LF", 400, "GET / HTTP/1.1\nHost: a\n\n"},
      {"one bare LF", 400, "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"},
      {"bare CR", 400, "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"},
      {"space before the colon", 400, post("X-A : b\r\n")},
      {"no colon", 400, post("X-A\r\n")},
      {"empty name", 400, post(": b\r\n")},
      {"NUL in a value", 400, post(std::string("X-A: b\0c\r\n", 10))},
      {"control in a value", 400, post("X-A: b\x01\r\n")},
      {"folded header", 400, post("X-A: b\r\n c\r\n")},
      {"folded by a tab", 400, post("X-A: b\r\n\tc\r\n")},
      {"folded first header", 400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"},
      {"unknown coding", 501, post("Transfer-Encoding: xchunked\r\n")},
      {"chunked, identity", 501, post("Transfer-Encoding: chunked, identity\r\n")},
      {"gzip, chunked", 501, post("Transfer-Encoding: gzip, chunked\r\n")},
      {"two codings", 400, post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")},
      {"coding in HTTP/1.0", 400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"no Host", 400, "GET / HTTP/1.1\r\n\r\n"},
      {"no Host in HTTP/1.0", 0, "GET / HTTP/1.0\r\n\r\n"},
      {"two Hosts", 400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"},
      {"empty Host", 400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"},
      {"odd Host", 400, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"},
      {"two types", 400, post("Content-Type: a/b\r\nContent-Type: a/b\r\n")},
      {"two keys", 400, post("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n")},
      {"two origins", 400, post("Origin: null\r\nOrigin: http://a\r\n")},
      {"absolute target", 400, "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"authority", 400, "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"asterisk", 0, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"asterisk elsewhere", 400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"bad percent", 400, "GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"bad digits", 400, "GET /%4g HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"encoded NUL", 400, "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"encoded newline", 400, "GET /a%0d%0a HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"fragment", 400, "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"raw UTF-8", 400, "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"space in the target", 400, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"two spaces", 400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"no version", 400, "GET /\r\nHost: a\r\n\r\n"},
      {"HTTP/0.9", 505, "GET / HTTP/0.9\r\nHost: a\r\n\r\n"},
      {"HTTP/2", 505, "PRI * HTTP/2.0\r\n\r\n"},
      {"small letters", 400, "GET / http/1.1\r\nHost: a\r\n\r\n"},
      {"unknown method", 501, "BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"method in small letters", 501, "get / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"long target", 414, "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"endless target", 414, "GET /" + std::string(70000, 'a')},
      {"long headers", 431, post("X: " + std::string(70000, 'a') + "\r\n")},
      {"compressed", 415, post("Content-Encoding: gzip\r\nContent-Length: 2\r\n", "ab")},
      {"other expectation", 417, post("Expect: tea\r\n")},
      {"TLS to a plain port", 400, "\x16\x03\x01\x02\x01\x01\r\n\r\n"},
      {"empty line first", 0, "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {"two empty lines first", 400, "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
  };
  return all;
}

const std::vector<Case>& bodies() {
  static const std::vector<Case> all = {
      {"chunks", 0, post("Transfer-Encoding: chunked\r\n", "2\r\nab\r\n0\r\n\r\n")},
      {"chunk extension", 0, post("Transfer-Encoding: chunked\r\n", "2;a=b\r\nab\r\n0\r\n\r\n")},
      {"bare LF in an extension", 400,
       post("Transfer-Encoding: chunked\r\n", "2;a\nb\r\nab\r\n0\r\n\r\n")},
      {"bare LF in a quoted chunk extension", 400,
       post("Transfer-Encoding: chunked\r\n", "2;a=\"\n\"\r\nab\r\n0\r\n\r\n")},
      {"long chunk extension", 400,
       post("Transfer-Encoding: chunked\r\n",
            "2;a=" + std::string(1100, 'b') + "\r\nab\r\n0\r\n\r\n")},
      {"bare LF after a size", 400, post("Transfer-Encoding: chunked\r\n", "2\nab\r\n0\r\n\r\n")},
      {"bare LF after a chunk", 400, post("Transfer-Encoding: chunked\r\n", "2\r\nab\n0\r\n\r\n")},
      {"chunk longer than its size", 400,
       post("Transfer-Encoding: chunked\r\n", "2\r\nabc\r\n0\r\n\r\n")},
      {"0x as a size", 400, post("Transfer-Encoding: chunked\r\n", "0x2\r\nab\r\n0\r\n\r\n")},
      {"huge size", 400, post("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n")},
      {"negative size", 400, post("Transfer-Encoding: chunked\r\n", "-2\r\nab\r\n0\r\n\r\n")},
      {"empty size", 400, post("Transfer-Encoding: chunked\r\n", "\r\nab\r\n0\r\n\r\n")},
      {"chunks beyond the limit", 413,
       post("Transfer-Encoding: chunked\r\n", "60\r\n" + std::string(96, 'a') + "\r\n60\r\n" +
                                                  std::string(96, 'a') + "\r\n0\r\n\r\n")},
  };
  return all;
}

TEST(HttpParser, RefusesWhatCouldBeFramedInTwoWays) {
  for (const auto* cases : {&heads(), &bodies()})
    for (const Case& one : *cases)
      for (const size_t portion : {size_t{1} << 20, size_t{7}, size_t{1}})
        EXPECT_EQ(read(one.bytes, portion), one.status) << one.what << ", portion " << portion;
}

TEST(HttpParser, CountsHeaders) {
  const auto with = [](int count) {
    std::string headers;
    for (int i = 1; i < count; ++i) headers += "X-" + std::to_string(i) + ": a\r\n";
    return post(headers);
  };
  EXPECT_EQ(read(with(100)), 0);
  EXPECT_EQ(read(with(101)), 431);
  EXPECT_EQ(read(with(1000)), 431);
}

TEST(HttpParser, LimitsExtensionsOfChunksAndTrailers) {
  const std::string extension(200000, 'a');
  EXPECT_GE(read(post("Transfer-Encoding: chunked\r\n", "2;" + extension), 4096), 400);
  std::string trailers;
  for (int i = 0; i < 20000; ++i) trailers += "X-" + std::to_string(i) + ": a\r\n";
  EXPECT_GE(read(post("Transfer-Encoding: chunked\r\n", "0\r\n" + trailers + "\r\n"), 4096), 400);
}

TEST(HttpParser, TakesApartARequest) {
  HttpRequest request;
  std::string rest;
  EXPECT_EQ(read("POST /v1/models/a%2Fb?x=%zz&y HTTP/1.1\r\nHOST: me:80\r\nX-Mixed: A b\r\n"
                 "Content-Length: 2\r\n\r\nokGET",
                 1 << 20, &request, &rest),
            0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/models/a/b");
  EXPECT_EQ(request.query, "x=%zz&y");
  EXPECT_EQ(request.header("host"), "me:80");
  EXPECT_EQ(request.header("x-mixed"), "A b");
  EXPECT_EQ(request.body, "ok");
  EXPECT_EQ(rest, "GET");
}

TEST(HttpParser, DropsTrailers) {
  HttpRequest request;
  EXPECT_EQ(
      read(post("Transfer-Encoding: chunked\r\n", "0\r\nX-Api-Key: a\r\n\r\n"), 1 << 20, &request),
      0);
  EXPECT_EQ(request.header("x-api-key"), "");
}

TEST(HttpParser, WaitsForWhatIsMissing) {
  const std::string whole = post("Content-Length: 5\r\n", "abcde");
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_EQ(read(whole.substr(0, size)), -1);
}

TEST(PercentDecoded, Decodes) {
  EXPECT_EQ(percent_decoded("a%20b%C3%a4%25"), "a b\xc3\xa4%");
  EXPECT_THROW(percent_decoded("%"), ApiError);
  EXPECT_THROW(percent_decoded("a%1"), ApiError);
  EXPECT_THROW(percent_decoded("a%1\x7f"), ApiError);
}

}  // namespace
}  // namespace tensora::serve

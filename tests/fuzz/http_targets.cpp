#include "targets.h"
#include "tensora/base/check.h"
#include "tensora/serve/api_error.h"
#include "tensora/serve/http_parser.h"

namespace tensora::fuzz {
namespace {

using namespace serve;

struct Outcome {
  int status = -1;  // of a refusal; 0: a whole request, -1: bytes are missing
  HttpRequest request = {};
  std::string rest = {};
};

Outcome read(std::string_view bytes, size_t portion) {
  HttpParser parser(
      HttpLimits{.target_bytes = 256, .header_bytes = 2048, .headers = 10, .body_bytes = 4096});
  Outcome outcome;
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
    ensure(error.status >= 400 && error.status <= 505, "fuzz: status ", error.status);
    outcome.status = error.status;
    return outcome;
  }
  if (!is_whole) return outcome;
  outcome.status = 0;
  outcome.request = std::move(parser.request());
  outcome.rest = input.append(bytes);
  return outcome;
}

// A request is framed in the same way whatever portions it comes in, and what is accepted has
// passed the checks.
void http_request(std::string_view input) {
  const Outcome whole = read(input, input.size() + 1);
  const Outcome parts = read(input, 1 + input.size() % 13);
  ensure((whole.status == 0) == (parts.status == 0) && whole.rest == parts.rest &&
             whole.request.body == parts.request.body &&
             whole.request.headers == parts.request.headers,
         "fuzz: portions change the meaning of a request: ", whole.status, ", ", parts.status);
  if (whole.status != 0) return;
  size_t lengths = 0, codings = 0;
  for (const auto& [name, value] : whole.request.headers) {
    lengths += name == "content-length" ? 1 : 0;
    codings += name == "transfer-encoding" ? 1 : 0;
    ensure(value.find_first_of("\r\n") == std::string::npos, "fuzz: a line's end in a value");
  }
  ensure(lengths + codings <= 1, "fuzz: the body's length is said twice");
  ensure(whole.request.headers.size() <= 10 && whole.request.body.size() <= 4096,
         "fuzz: beyond a limit");
  for (const char c : whole.request.path)
    ensure(static_cast<unsigned char>(c) >= ' ', "fuzz: a control character in the path");
}

std::vector<std::string> requests() {
  const std::string post = "POST /v1/a%20b?c=d HTTP/1.1\r\nHost: localhost:80\r\n";
  return {"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
          "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET",
          "\r\nOPTIONS * HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
          post + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}GET / HTTP/1.1\r\n",
          post + "Transfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\nX: y\r\n\r\nrest",
          post + "Expect: 100-continue\r\nAuthorization: Bearer x\r\nContent-Length: 1\r\n\r\na",
          post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"};
}

}  // namespace

std::span<const Target> http_targets() {
  static const Target all[] = {{"http_request", http_request, requests}};
  return all;
}

}  // namespace tensora::fuzz

#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tensora/serve/http.h"

namespace tensora::serve {

/// What a request may have at most. More is answered with 413, 414 or 431.
struct HttpLimits {
  size_t target_bytes = 8 << 10;
  size_t header_bytes = 64 << 10;  // the request line and all headers
  size_t headers = 100;
  size_t body_bytes = 32 << 20;
};

/// Reads one request of HTTP/1.0 or 1.1 from bytes that arrive in any portions. Stricter than the
/// RFCs allow: whatever two programs might frame in different ways is refused (Note [Framing]).
/// Throws ApiError with the status 400, 413, 414, 415, 417, 431, 501 or 505; the bytes that follow
/// are then without meaning, and the connection has to be closed.
class HttpParser {
 public:
  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  /// Takes the request line and the headers from the front of `input` once they are complete.
  /// Returns false if bytes are missing.
  bool read_head(std::string& input);
  /// After the head: takes the bytes of the body. Returns false if bytes are missing.
  bool read_body(std::string& input);

  /// The head once read_head has returned true; the body once read_body has.
  HttpRequest& request();
  bool has_body() const;
  bool is_http_1_0() const;
  bool keeps_alive() const;
  /// The client waits for "100 Continue" before it sends the body.
  bool expects_continue() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// "a%20b" is "a b". Throws ApiError 400 for a broken encoding or a control character.
std::string percent_decoded(std::string_view text);

}  // namespace tensora::serve

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tensora/serve/http.h"
#include "tensora/serve/http_parser.h"

namespace tensora::serve {

/// What is done with requests. All functions are called on an I/O thread and must return quickly.
class HttpHandler {
 public:
  HttpHandler() = default;
  HttpHandler(const HttpHandler&) = delete;
  HttpHandler& operator=(const HttpHandler&) = delete;
  virtual ~HttpHandler() = default;

  /// The head of a request has come. An answer that needs no body, most often a refusal; without
  /// one, the body is read and `handle` called.
  virtual std::optional<HttpResponse> answer_head(const HttpRequest& head) = 0;
  /// `handle` will answer it within microseconds, in one piece.
  virtual bool is_quick(const HttpRequest& head) const = 0;
  virtual void handle(HttpRequest request, ReplyPtr reply) = 0;
  /// A client sent what is no request, or too slowly, and got this status; for the log.
  virtual void on_bad_request(std::string_view address, int status, std::string_view reason) = 0;
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address, or a name for one
  int port = 0;                    // 0: one that is free
  int threads = 1;  // for answers, each with its own connections; another one receives requests
  size_t max_connections = 4096;  // more get 503
  HttpLimits limits = {};
  size_t most_body_bytes = 512 << 20;  // of all requests that are being read; more get 503
  double header_seconds = 10;   // from the first byte, or the connection, to the end of the head
  double body_seconds = 30;     // for the whole body
  double idle_seconds = 60;     // between requests
  double stalled_seconds = 30;  // a client that takes nothing for so long is dropped
  std::string tls_certificate = {}, tls_key = {};  // PEM files; both or none
};

/// An HTTP/1.1 server. Requests of one connection are answered one after another; a connection
/// costs some hundred bytes and no thread.
class HttpServer {
 public:
  /// Listens. Throws Error where the address cannot be had. `handler` must outlive the server.
  HttpServer(const HttpServerOptions& options, HttpHandler& handler);
  /// Closes what is open.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  /// No new connections; those that there are get "connection: close" with their next answer.
  void stop_listening();
  /// Waits until no answer is under way. Returns false after so many seconds.
  bool wait_until_idle(double seconds) const;
  size_t connections() const;
  /// Requests that are being read or answered.
  size_t active() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tensora::serve

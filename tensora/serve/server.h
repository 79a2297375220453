#pragma once

#include <memory>
#include <string>

#include "tensora/serve/gate.h"
#include "tensora/serve/http_server.h"
#include "tensora/serve/router.h"
#include "tensora/serve/service.h"
#include "tensora/serve/stream_store.h"

namespace tensora::serve {

/// All routes of the server. The service must outlive the router.
void add_all_routes(Router& router, Service& service);

struct ServerOptions {
  HttpServerOptions http = {};
  GateOptions gate = {};      // `is_loopback` follows from http.host
  bool allows_open = false;   // other machines may connect although there are no keys
  int workers = 4;            // threads that parse and prepare requests
  size_t max_waiting = 4096;  // requests that wait for a worker; more get 503
  StreamStoreOptions streams = {};
  std::string log = "-";  // a file, "-" for standard error, or "" for none
};

/// The HTTP server with its routes, on top of a service.
class Server {
 public:
  /// Listens. Throws Error where the address cannot be had, and where it is open to other machines
  /// and there are no keys, unless that was asked for. The service must outlive the server.
  Server(const ServerOptions& options, Service& service);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// "http://127.0.0.1:8080"
  std::string url() const;
  int port() const;
  const Router& router() const;
  /// A line in the log.
  void log(std::string_view event, std::string_view message);

  /// Takes no more connections and requests; open answers go on, /ready is 503.
  void drain();
  /// Whether no answer is under way; waits for up to so many seconds.
  bool wait_until_idle(double seconds) const;
  /// Ends the answers that are still open with an error that clients see.
  void end_answers();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tensora::serve

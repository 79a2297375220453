#include "tensora/serve/server.h"

#include "tensora/base/check.h"
#include "tensora/serve/access_log.h"
#include "tensora/serve/anthropic_routes.h"
#include "tensora/serve/front_desk.h"
#include "tensora/serve/llama_routes.h"
#include "tensora/serve/metrics_routes.h"
#include "tensora/serve/ollama_routes.h"
#include "tensora/serve/openai_routes.h"
#include "tensora/serve/page_routes.h"
#include "tensora/serve/responses_routes.h"
#include "tensora/serve/status_routes.h"
#include "tensora/serve/worker_pool.h"

namespace tensora::serve {
namespace {

ApiError shutting_down() {
  return ApiError(503, "the server is shutting down", {}, "shutting_down");
}

GateOptions gate_options(const ServerOptions& options) {
  GateOptions gate = options.gate;
  gate.is_loopback = is_loopback(options.http.host);
  check(gate.is_loopback || options.allows_open || !gate.keys.empty(), "serve: '",
        options.http.host,
        "' is open to other machines, and there are no API keys. Give keys by --api-keys FILE or "
        "TENSORA_API_KEY, or say --allow-open if everybody may use the server");
  return gate;
}

}  // namespace

void add_all_routes(Router& router, Service& service) {
  add_status_routes(router, service);
  add_page_routes(router);
  add_metrics_routes(router, service);
  add_openai_routes(router, service);
  add_responses_routes(router, service);
  add_anthropic_routes(router, service);
  add_ollama_routes(router, service);
  add_llama_routes(router, service);
}

// The last one goes first: no request comes while the rest is taken down.
struct Server::Parts {
  Parts(const ServerOptions& options, Service& given)
      : service(given),
        gate(std::make_shared<Gate>(gate_options(options))),
        log(std::make_shared<AccessLog>(options.log)),
        streams(options.streams.max_streams > 0 ? std::make_unique<StreamStore>(options.streams)
                                                : nullptr),
        pool(options.workers, options.max_waiting),
        desk(router, gate, pool, log, streams.get()) {
    add_all_routes(router, service);
    if (streams) add_stream_routes(router, *streams);
    http = std::make_unique<HttpServer>(options.http, desk);
    const std::string& host = options.http.host;
    const bool is_v6 = host.find(':') != std::string::npos;
    url = concat(options.http.tls_key.empty() ? "http://" : "https://", is_v6 ? "[" : "", host,
                 is_v6 ? "]" : "", ":", http->port());
  }
  ~Parts() {
    http.reset();
    if (streams) streams->close();  // the pool does not go on with what nobody can read
  }

  Service& service;
  Router router;
  std::shared_ptr<Gate> gate;
  std::shared_ptr<AccessLog> log;
  std::unique_ptr<StreamStore> streams;  // null: none are kept
  WorkerPool pool;
  FrontDesk desk;
  std::unique_ptr<HttpServer> http;
  std::string url;
};

Server::Server(const ServerOptions& options, Service& service)
    : parts_(std::make_unique<Parts>(options, service)) {}

Server::~Server() = default;

std::string Server::url() const { return parts_->url; }

int Server::port() const { return parts_->http->port(); }

const Router& Server::router() const { return parts_->router; }

void Server::log(std::string_view event, std::string_view message) {
  parts_->log->event(event, message);
}

void Server::drain() {
  parts_->service.drain();
  parts_->desk.drain();
  parts_->http->stop_listening();
}

bool Server::wait_until_idle(double seconds) const {
  return parts_->http->wait_until_idle(seconds);
}

void Server::end_answers() { parts_->service.end_all(shutting_down()); }

}  // namespace tensora::serve

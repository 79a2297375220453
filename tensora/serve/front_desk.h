#pragma once

#include <atomic>
#include <memory>

#include "tensora/serve/access_log.h"
#include "tensora/serve/gate.h"
#include "tensora/serve/http_server.h"
#include "tensora/serve/router.h"
#include "tensora/serve/stream_store.h"
#include "tensora/serve/worker_pool.h"

namespace tensora::serve {

/// Leads requests from the HTTP server to their routes: asks the gate, runs quick routes at once
/// and the others on the pool, or on a pool of its own where their bodies are long; answers what
/// they throw, and writes the access log. The router and
/// the pool and the streams must outlive it; the gate and the log live as long as the replies.
class FrontDesk final : public HttpHandler {
 public:
  /// `streams` may be null: then answers end with their connections.
  FrontDesk(const Router& router, std::shared_ptr<Gate> gate, WorkerPool& pool,
            std::shared_ptr<AccessLog> log, StreamStore* streams = nullptr);

  std::optional<HttpResponse> answer_head(const HttpRequest& head) override;
  bool is_quick(const HttpRequest& head) const override;
  void handle(HttpRequest request, ReplyPtr reply) override;
  void on_bad_request(std::string_view address, int status, std::string_view reason) override;

  /// From now on only quick routes are answered; the others get 503.
  void drain() { is_draining_ = true; }

 private:
  void check_draining(const Route& route) const;

  const Router& router_;
  const std::shared_ptr<Gate> gate_;
  WorkerPool& pool_;
  const std::shared_ptr<AccessLog> log_;
  StreamStore* const streams_;
  std::atomic<bool> is_draining_ = false;
  WorkerPool long_pool_;  // the last: its jobs use the above
};

}  // namespace tensora::serve

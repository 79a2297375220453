#include "tensora/serve/status_routes.h"

namespace tensora::serve {

void add_status_routes(Router& router, const Service& service) {
  const auto health = [](Exchange& exchange) {
    exchange.reply->send({.body = R"({"status":"ok"})"});
  };
  const auto ready = [&service](Exchange& exchange) {
    const ServiceLoad load = service.load();
    if (load.is_ready && !load.is_draining)
      return exchange.reply->send({.body = R"({"status":"ready"})"});
    HttpResponse response{.status = 503, .headers = {{"retry-after", "1"}}};
    response.body =
        load.is_draining ? R"({"status":"shutting down"})" : R"({"status":"loading model"})";
    exchange.reply->send(std::move(response));
  };
  for (const char* path : {"/health", "/v1/health"})
    router.add(
        {.method = "GET", .path = path, .handle = health, .is_public = true, .is_quick = true});
  router.add(
      {.method = "GET", .path = "/ready", .handle = ready, .is_public = true, .is_quick = true});
}

}  // namespace tensora::serve

#include "tensora/base/check.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/openai_routes.h"

namespace tensora::serve {
namespace {

void append_model(std::string& out, const ModelEntry& model) {
  out += concat("{\"id\":", json_string(model.name),
                ",\"object\":\"model\",\"created\":", model.created,
                ",\"owned_by\":\"tensora\",\"root\":",
                json_string(model.root.empty() ? model.name : model.root), ",\"parent\":");
  if (!model.root.empty() && !model.is_alias)
    append_json(out, model.root);
  else
    out += "null";
  out += concat(",\"loaded\":", model.is_loaded ? "true" : "false");
  if (model.context > 0) out += concat(",\"max_model_len\":", model.context);
  out += '}';
}

void list_models(const Service& service, Exchange& exchange) {
  std::string out = R"({"object":"list","data":[)";
  bool is_first = true;
  for (const ModelEntry& model : service.models()) {
    if (!std::exchange(is_first, false)) out += ',';
    append_model(out, model);
  }
  exchange.reply->send({.body = out + "]}"});
}

void show_model(const Service& service, Exchange& exchange) {
  for (const ModelEntry& model : service.models()) {
    if (model.name != exchange.parameter) continue;
    std::string out;
    append_model(out, model);
    exchange.reply->send({.body = std::move(out)});
    return;
  }
  throw ApiError(404, concat("the model '", exchange.parameter, "' does not exist"), "model",
                 "model_not_found");
}

}  // namespace

void add_openai_model_routes(Router& router, Service& service) {
  for (const char* path : {"/v1/models", "/models"})
    router.add({.method = "GET", .path = path, .handle = [&service](Exchange& exchange) {
                  list_models(service, exchange);
                }});
  router.add({.method = "GET", .path = "/v1/models/{id}", .handle = [&service](Exchange& exchange) {
                show_model(service, exchange);
              }});
}

}  // namespace tensora::serve

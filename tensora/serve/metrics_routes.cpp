#include "tensora/serve/metrics_routes.h"

#include "tensora/base/check.h"
#include "tensora/serve/json_fields.h"

namespace tensora::serve {
namespace {

Json sampling_json(const llm::SamplingOptions& sampling) {
  return {{"temperature", sampling.temperature},
          {"top_k", sampling.top_k},
          {"top_p", sampling.top_p},
          {"min_p", sampling.min_p},
          {"typical_p", sampling.typical_p},
          {"top_n_sigma", sampling.top_n_sigma},
          {"repeat_penalty", sampling.repeat_penalty},
          {"repeat_last_n", sampling.repeat_last_n},
          {"presence_penalty", sampling.presence_penalty},
          {"frequency_penalty", sampling.frequency_penalty},
          {"dry_multiplier", sampling.dry_multiplier},
          {"dry_base", sampling.dry_base},
          {"dry_allowed_length", sampling.dry_allowed_length},
          {"dry_penalty_last_n", sampling.dry_last_n},
          {"xtc_probability", sampling.xtc_probability},
          {"xtc_threshold", sampling.xtc_threshold},
          {"mirostat", sampling.mirostat},
          {"mirostat_tau", sampling.mirostat_tau},
          {"mirostat_eta", sampling.mirostat_eta}};
}

// Where a model is: the layers' device and bytes, the cache, and what each device holds in all.
Json placement_json(const ServedModel& model) {
  const llm::BackendMemory memory = model.backend->memory_usage();
  const std::string device = concat(model.backend->device());
  Json placement = {{"layers",
                     {{{"first", 0},
                       {"last", model.info.config.layers - 1},
                       {"device", device},
                       {"bytes", memory.model_bytes}}}},
                    {"kv_cache", {{"device", device}, {"bytes", memory.cache_bytes}}},
                    {"devices", Json::array()}};
  for (const auto& reading : memory.devices)
    placement["devices"].push_back({{"device", concat(reading.device)},
                                    {"used_bytes", reading.used},
                                    {"peak_bytes", reading.peak},
                                    {"total_bytes", reading.total}});
  return placement;
}

Json model_json(const ServedModel& model) {
  const llm::ModelConfig& config = model.info.config;
  return {{"name", model.name},
          {"description", model.info.summary.name},
          {"architecture", config.architecture},
          {"parameters", model.info.summary.parameters},
          {"precision", model.info.summary.precision},
          {"layers", config.layers},
          {"hidden_size", config.hidden_size},
          {"vocab_size", config.vocab_size},
          {"context", model.context},
          {"trained_context", config.context_length},
          {"slots", model.slots},
          {"framework", model.backend->label()},
          {"placement", placement_json(model)}};
}

void show_props(const Service& service, Exchange& exchange) {
  Json out = {{"build_info", "tensora"}, {"modalities", {{"vision", false}, {"audio", false}}}};
  Json settings = {{"params", sampling_json(service.sampling())}};
  Json models = Json::array();
  int64_t slots = 0;
  for (const ModelEntry& entry : service.models()) {
    const ServedModelPtr model = entry.root.empty() ? service.loaded_model(entry.name) : nullptr;
    if (!model) continue;
    if (models.empty()) {
      out["model_alias"] = model->name;
      settings["n_ctx"] = model->context;
      if (const auto* chat = model->backend->chat_template()) out["chat_template"] = chat->source();
    }
    slots += model->slots;
    models.push_back(model_json(*model));
  }
  out["total_slots"] = slots;
  out["default_generation_settings"] = std::move(settings);
  out["models"] = std::move(models);
  exchange.reply->send({.body = out.dump(-1, ' ', false, Json::error_handler_t::replace)});
}

}  // namespace

void add_metrics_routes(Router& router, Service& service) {
  router.add({.method = "GET", .path = "/metrics", .handle = [&service](Exchange& exchange) {
                exchange.reply->send({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                                      .body = service.metrics()});
              }});
  router.add({.method = "GET", .path = "/props", .handle = [&service](Exchange& exchange) {
                show_props(service, exchange);
              }});
}

}  // namespace tensora::serve

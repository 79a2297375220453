#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>

#include "tensora/base/check.h"
#include "tensora/serve/dialect.h"
#include "tensora/serve/embedder.h"
#include "tensora/serve/ollama_routes.h"
#include "tensora/serve/sampling_fields.h"
#include "tensora/serve/tool_format.h"

namespace tensora::serve {
namespace {

// The version of Ollama whose API this is; clients switch features on by it.
constexpr const char* kVersion = R"({"version":"0.12.6"})";
constexpr size_t kMostTexts = 2048;

std::string size_name(int64_t parameters) {
  char text[32];
  const bool is_large = parameters >= 1'000'000'000;
  std::snprintf(text, sizeof(text), "%.1f%c",
                static_cast<double>(parameters) / (is_large ? 1e9 : 1e6), is_large ? 'B' : 'M');
  return text;
}

// A name for a model's contents, in the shape of a SHA-256; the file is not read for it.
std::string digest_of(const std::string& name) {
  std::string out;
  for (uint64_t part = 0; part < 4; ++part) {
    uint64_t hash = 1469598103934665603u + part;
    for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
    out += text;
  }
  return out;
}

Json details_of(const ServedModel& model) {
  const llm::ModelInfo& info = model.info;
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", info.config.architecture},
          {"families", Json::array({info.config.architecture})},
          {"parameter_size", size_name(info.summary.parameters)},
          {"quantization_level", info.summary.precision}};
}

Json entry_of(const ModelEntry& entry) {
  return {{"name", entry.name},
          {"model", entry.name},
          {"modified_at", iso_time(entry.created * 1'000'000'000)},
          {"size", 0},
          {"digest", digest_of(entry.name)},
          {"details",
           {{"parent_model", entry.root},
            {"format", "gguf"},
            {"family", ""},
            {"families", Json::array()},
            {"parameter_size", ""},
            {"quantization_level", ""}}}};
}

// Only what is loaded has details.
Json list_models(const Service& service, bool only_loaded) {
  Json models = Json::array();
  for (const ModelEntry& entry : service.models()) {
    const ServedModelPtr model = service.loaded_model(entry.name);
    if (only_loaded && (!model || entry.is_alias)) continue;
    Json one = entry_of(entry);
    if (model) {
      one["size"] = model->info.summary.bytes;
      one["details"] = details_of(*model);
      if (only_loaded) {
        const llm::BackendMemory memory = model->backend->memory_usage();
        const bool is_gpu = model->backend->device().type != DeviceType::cpu;
        one["size"] = memory.model_bytes + memory.cache_bytes;
        one["size_vram"] = is_gpu ? memory.model_bytes + memory.cache_bytes : 0;
        one["context_length"] = model->backend->context();
        one["expires_at"] = "2318-01-01T00:00:00Z";  // it stays
        one.erase("modified_at");
      }
    }
    models.push_back(std::move(one));
  }
  return {{"models", std::move(models)}};
}

Json show_model(const ServedModel& model) {
  const llm::ModelConfig& config = model.info.config;
  const std::string& kind = config.architecture;
  const llm::ChatTemplate* chat = model.backend->chat_template();
  Json capabilities = Json::array({"completion"});
  if (chat) capabilities.push_back("tools");
  if (chat && reasoning_format_of(chat->source()).is_known()) capabilities.push_back("thinking");
  return {{"modelfile", ""},
          {"parameters", ""},
          {"template", chat ? chat->source() : ""},
          {"details", details_of(model)},
          {"model_info",
           {{"general.architecture", kind},
            {"general.basename", model.name},
            {"general.parameter_count", model.info.summary.parameters},
            {kind + ".context_length", model.backend->context()},
            {kind + ".embedding_length", config.hidden_size},
            {kind + ".block_count", config.layers},
            {kind + ".feed_forward_length", config.feed_forward},
            {kind + ".attention.head_count", config.heads},
            {kind + ".attention.head_count_kv", config.kv_heads},
            {kind + ".vocab_size", config.vocab_size}}},
          {"capabilities", std::move(capabilities)},
          {"modified_at", iso_time(model.created * 1'000'000'000)}};
}

std::string read_model(Fields& body) {
  return without_latest(body.text("model").value_or(body.text("name").value_or("")));
}

void show(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  Fields body(json);
  const ServedModelPtr model = service.model(read_model(body));
  body.accept({"verbose", "system", "template", "options"});
  exchange.reply->send(
      {.headers = ignored_header(body.unread()), .body = dumped(show_model(*model))});
}

std::vector<std::string> read_texts(Fields& body, const std::string& name) {
  const Json& input = body.at(name);
  if (input.is_string()) return {input.get<std::string>()};
  const Json* list = body.list(name, kMostTexts);
  std::vector<std::string> texts;
  for (size_t i = 0; i < list->size(); ++i) {
    if (!(*list)[i].is_string())
      body.fail(concat(name, "[", i, "]"), concat("expected a string, got ", kind_of((*list)[i])));
    texts.push_back((*list)[i].get<std::string>());
  }
  return texts;
}

// `is_old`: /api/embeddings, with one text and one vector.
void embed(Service& service, Exchange& exchange, bool is_old) {
  const auto started = std::chrono::steady_clock::now();
  const Json json = parse_body(exchange.request.body);
  Fields body(json);
  const std::string name = read_model(body);
  const ServedModelPtr model = service.model(name);
  const llm::TokenizerPtr tokenizer = model->backend->tokenizer();
  if (!tokenizer) throw ApiError(400, "the model has no tokenizer", "model");
  std::vector<std::vector<int32_t>> tokens;
  int64_t count = 0;
  const auto texts = is_old ? std::vector{body.required_text("prompt")} : read_texts(body, "input");
  for (const std::string& text : texts) {
    tokens.push_back(tokenizer->encode(text));
    count += std::ssize(tokens.back());
  }
  const auto dimensions =
      is_old ? std::nullopt : body.integer("dimensions", 1, model->info.config.hidden_size);
  body.accept({"keep_alive", "truncate", "options"});
  const Headers ignored = ignored_header(body.unread());
  auto vectors = service.embed(*model, tokens, *exchange.reply);
  if (dimensions)
    for (std::vector<float>& vector : vectors) shorten(vector, static_cast<size_t>(*dimensions));
  const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - started;
  const Json out = is_old ? Json{{"embedding", vectors.at(0)}}
                          : Json{{"model", name.empty() ? model->name : name},
                                 {"embeddings", vectors},
                                 {"total_duration", time.count()},
                                 {"load_duration", 0},
                                 {"prompt_eval_count", count}};
  exchange.reply->send({.headers = ignored, .body = dumped(out)});
}

}  // namespace

HttpResponse ollama_error(const ApiError& error) {
  return {
      .status = error.status, .headers = error.headers, .body = dumped({{"error", error.what()}})};
}

std::string without_latest(std::string name) {
  constexpr std::string_view kTag = ":latest";
  if (name.ends_with(kTag)) name.resize(name.size() - kTag.size());
  return name;
}

std::string iso_time(int64_t nanoseconds) {
  using namespace std::chrono;
  if (nanoseconds < 0)
    nanoseconds =
        duration_cast<std::chrono::nanoseconds>(system_clock::now().time_since_epoch()).count();
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40], fraction[16];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(fraction, sizeof(fraction), ".%09dZ",
                static_cast<int>(nanoseconds % 1'000'000'000));
  return concat(text, fraction);
}

void add_ollama_model_routes(Router& router, Service& service) {
  const auto add = [&](const char* method, const char* path,
                       std::function<void(Exchange&)> handle) {
    router.add(
        {.method = method, .path = path, .handle = std::move(handle), .error = ollama_error});
  };
  add("GET", "/api/version", [](Exchange& exchange) { exchange.reply->send({.body = kVersion}); });
  add("GET", "/api/tags", [&service](Exchange& exchange) {
    exchange.reply->send({.body = dumped(list_models(service, false))});
  });
  add("GET", "/api/ps", [&service](Exchange& exchange) {
    exchange.reply->send({.body = dumped(list_models(service, true))});
  });
  add("POST", "/api/show", [&service](Exchange& exchange) { show(service, exchange); });
  add("POST", "/api/embed", [&service](Exchange& exchange) { embed(service, exchange, false); });
  add("POST", "/api/embeddings",
      [&service](Exchange& exchange) { embed(service, exchange, true); });
  for (const char* path : {"/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete"})
    add("POST", path, [](Exchange&) {
      throw ApiError(403, "models cannot be changed over the network; start the server with them");
    });
}

void add_ollama_routes(Router& router, Service& service) {
  add_ollama_answer_routes(router, service);
  add_ollama_model_routes(router, service);
}

}  // namespace tensora::serve

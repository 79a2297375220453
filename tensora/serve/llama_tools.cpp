#include <functional>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/serve/answer_format.h"
#include "tensora/serve/dialect.h"
#include "tensora/serve/llama_routes.h"
#include "tensora/serve/openai_fields.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

llm::TokenizerPtr tokenizer_of(Service& service, Fields& body) {
  const ServedModelPtr model = service.model(body.text("model").value_or(""));
  llm::TokenizerPtr tokenizer = model->backend->tokenizer();
  if (!tokenizer) throw ApiError(400, "the model has no tokenizer", "model");
  return tokenizer;
}

// A token's text, or its bytes where they are not whole characters.
Json piece_of(const std::string& bytes) {
  if (valid_utf8(bytes) == bytes) return bytes;
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<uint8_t>(byte));
  return list;
}

void tokenize(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  Fields body(json);
  const llm::TokenizerPtr tokenizer = tokenizer_of(service, body);
  const llm::EncodeOptions options{.add_special = body.boolean("add_special").value_or(false),
                                   .parse_special = body.boolean("parse_special").value_or(true)};
  const auto tokens = tokenizer->encode(body.required_text("content"), options);
  Json list = Json::array();
  const bool has_pieces = body.boolean("with_pieces").value_or(false);
  for (const int32_t token : tokens) {
    if (has_pieces)
      list.push_back(
          {{"id", token}, {"piece", piece_of(tokenizer->bytes_of(token, {.special = true}))}});
    else
      list.push_back(token);
  }
  exchange.reply->send(
      {.headers = ignored_header(body.unread()), .body = dumped({{"tokens", std::move(list)}})});
}

void detokenize(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  Fields body(json);
  const llm::TokenizerPtr tokenizer = tokenizer_of(service, body);
  const Json* list = body.list("tokens", 10'000'000);
  if (!list) body.fail("tokens", "is required");
  const auto tokens = read_tokens(*list, "tokens", tokenizer->vocab_size());
  exchange.reply->send(
      {.headers = ignored_header(body.unread()),
       .body = dumped({{"content", tokenizer->decode(tokens, {.special = true})}})});
}

void apply_template(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  Fields body(json);
  AnswerRequest request;
  const ServedModelPtr model = service.model(body.text("model").value_or(""));
  request.request.messages = read_messages(body);
  request.tools = read_tool_use(body);
  read_template_variables(body, request.request.chat);
  read_continuation(body, request.request.chat);
  const llm::ChatTemplate* chat = model->backend->chat_template();
  if (!chat) throw ApiError(400, "the model has no chat template", "model");
  const AnswerFormat format(chat, model->backend->tokenizer(), request);
  try {
    const std::string prompt = chat->render(request.request.messages, request.request.chat);
    exchange.reply->send(
        {.headers = ignored_header(body.unread()), .body = dumped({{"prompt", prompt}})});
  } catch (const Error& error) {
    throw ApiError(400, concat("messages: ", error.what()), "messages");
  }
}

// The engine has no fixed slots: the first ones stand for the sequences that are running. What
// others ask is not shown.
Json slots_of(const Service& service) {
  Json slots = Json::array();
  for (const ModelEntry& entry : service.models()) {
    const ServedModelPtr model = entry.root.empty() ? service.loaded_model(entry.name) : nullptr;
    if (!model) continue;
    const llm::EngineStats stats = model->backend->stats();
    for (int64_t i = 0; i < model->slots; ++i)
      slots.push_back({{"id", slots.size()},
                       {"model", model->name},
                       {"n_ctx", model->backend->context()},
                       {"is_processing", i < stats.running}});
  }
  return slots;
}

// Adapters are chosen by the name of a model, each with the scale that it was loaded with.
Json adapters_of(const Service& service) {
  Json adapters = Json::array();
  for (const ModelEntry& entry : service.models()) {
    if (entry.is_alias || entry.root.empty()) continue;
    adapters.push_back(
        {{"id", adapters.size()}, {"path", entry.name}, {"scale", entry.adapter_scale}});
  }
  return adapters;
}

}  // namespace

void add_llama_tool_routes(Router& router, Service& service) {
  using Handle = void (*)(Service&, Exchange&);
  const std::pair<const char*, Handle> posts[] = {
      {"/tokenize", tokenize}, {"/detokenize", detokenize}, {"/apply-template", apply_template}};
  for (const auto& [path, handle] : posts)
    router.add({.method = "POST", .path = path, .handle = [&service, handle = handle](Exchange& e) {
                  handle(service, e);
                }});
  router.add({.method = "GET", .path = "/slots", .handle = [&service](Exchange& exchange) {
                exchange.reply->send({.body = dumped(slots_of(service))});
              }});
  router.add({.method = "GET", .path = "/lora-adapters", .handle = [&service](Exchange& exchange) {
                exchange.reply->send({.body = dumped(adapters_of(service))});
              }});
  router.add({.method = "POST", .path = "/lora-adapters", .handle = [](Exchange&) {
                throw ApiError(400, "adapters are chosen by the request's model, not for all");
              }});
}

void add_llama_routes(Router& router, Service& service) {
  add_llama_completion_routes(router, service);
  add_llama_tool_routes(router, service);
  add_rerank_routes(router, service);
}

}  // namespace tensora::serve

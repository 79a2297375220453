#include "tensora/serve/anthropic_routes.h"

#include "tensora/base/check.h"
#include "tensora/serve/anthropic_fields.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/openai_shared.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

Json error_json(const ApiError& error) {
  return {{"type", "error"},
          {"error", {{"type", type_of(error.status)}, {"message", error.what()}}}};
}

std::string_view stop_reason(const Answer& answer) {
  switch (answer.end) {
    case AnswerEnd::tool_calls:
      return "tool_use";
    case AnswerEnd::length:
    case AnswerEnd::deadline:
      return "max_tokens";
    case AnswerEnd::stop:
    case AnswerEnd::cancelled:
      break;
  }
  return answer.completion.stop.empty() ? "end_turn" : "stop_sequence";
}

// Tokens read from the cache are not among the input tokens.
Json usage_of(const Answer& answer) {
  const llm::Usage& usage = answer.completion.usage;
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens}};
}

Json stop_of(const Answer& answer) {
  const std::string& met = answer.completion.stop;
  return {{"stop_reason", stop_reason(answer)},
          {"stop_sequence", met.empty() ? Json() : Json(met)}};
}

struct MessageHead {
  std::string id, model;
  Headers headers;

  Json json() const {
    return {{"id", id},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model},
            {"content", Json::array()},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }
};

/// The message in one piece.
class MessageWhole final : public AnswerSink {
 public:
  MessageWhole(ReplyPtr reply, MessageHead head)
      : AnswerSink(std::move(reply)), head_(std::move(head)) {}
  void on_event(const AnswerEvent&) override {}
  void on_flush() override {}
  void on_error(const ApiError& error) override { reply().send(anthropic_error(error)); }

  void on_end(const std::vector<Answer>& answers) override {
    const Answer& answer = answers.front();
    Json message = head_.json();
    Json& content = message["content"];
    if (!answer.reasoning.empty())
      content.push_back({{"type", "thinking"}, {"thinking", answer.reasoning}, {"signature", ""}});
    if (!answer.text.empty()) content.push_back({{"type", "text"}, {"text", answer.text}});
    for (const llm::ToolCall& call : answer.calls)
      content.push_back({{"type", "tool_use"},
                         {"id", call.id},
                         {"name", call.name},
                         {"input", arguments_of(call)}});
    message.update(stop_of(answer));
    message["usage"] = usage_of(answer);
    reply().send({.headers = head_.headers, .body = dumped(message)});
  }

 private:
  MessageHead head_;
};

/// The message as server-sent events: one block after the other.
class MessageStream final : public AnswerSink {
 public:
  MessageStream(ReplyPtr reply, MessageHead head)
      : AnswerSink(std::move(reply)), head_(std::move(head)) {}

  void on_event(const AnswerEvent& event) override {
    using Kind = AnswerEvent::Kind;
    switch (event.kind) {
      case Kind::begin:
        return begin(event);
      case Kind::text:
        if (event.text.empty()) return;
        open(Block::text, R"({"type":"text","text":""})");
        return delta("text_delta", "text", event.text);
      case Kind::reasoning:
        if (event.text.empty()) return;
        open(Block::thinking, R"({"type":"thinking","thinking":"","signature":""})");
        return delta("thinking_delta", "thinking", event.text);
      case Kind::call:
        close();
        return open(Block::call, concat(R"({"type":"tool_use","id":)", json_string(event.call_id),
                                        R"(,"name":)", json_string(event.name), R"(,"input":{}})"));
      case Kind::arguments:
        if (event.text.empty()) return;
        return delta("input_json_delta", "partial_json", event.text);
      case Kind::end:
        return;
    }
  }
  void on_flush() override { write_out(out_); }
  void on_end(const std::vector<Answer>& answers) override {
    const Answer& answer = answers.front();
    close();
    append_event(
        out_, "message_delta",
        dumped(
            {{"type", "message_delta"}, {"delta", stop_of(answer)}, {"usage", usage_of(answer)}}));
    append_event(out_, "message_stop", R"({"type":"message_stop"})");
    on_flush();
    reply().end();
  }
  void on_error(const ApiError& error) override {
    if (!has_begun_) return reply().send(anthropic_error(error));
    append_event(out_, "error", dumped(error_json(error)));
    on_flush();
    reply().end();
  }

 private:
  enum class Block : uint8_t { none, text, thinking, call };

  void begin(const AnswerEvent& event) {
    has_begun_ = true;
    reply().begin(event_stream_head(head_.headers));
    Json message = head_.json();
    message["usage"] = {{"input_tokens", event.prompt_tokens},
                        {"cache_creation_input_tokens", 0},
                        {"cache_read_input_tokens", 0},
                        {"output_tokens", 0}};
    append_event(out_, "message_start", dumped({{"type", "message_start"}, {"message", message}}));
    append_event(out_, "ping", R"({"type":"ping"})");
  }
  void open(Block block, const std::string& content) {
    if (block_ == block && block != Block::call) return;
    close();
    block_ = block;
    append_event(out_, "content_block_start",
                 concat(R"({"type":"content_block_start","index":)", index_, R"(,"content_block":)",
                        content, "}"));
  }
  void close() {
    if (block_ == Block::none) return;
    append_event(out_, "content_block_stop",
                 concat(R"({"type":"content_block_stop","index":)", index_, "}"));
    block_ = Block::none;
    ++index_;
  }
  void delta(std::string_view type, std::string_view field, const std::string& text) {
    append_event(
        out_, "content_block_delta",
        concat(R"({"type":"content_block_delta","index":)", index_, R"(,"delta":{"type":")", type,
               R"(",")", field, R"(":)", json_string(text), "}}"));
  }

  MessageHead head_;
  std::string out_;
  Block block_ = Block::none;
  int64_t index_ = 0;
  bool has_begun_ = false;
};

void answer_messages(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  AnthropicCall call = read_anthropic(json, service.sampling(), false);
  AnswerRequest& request = call.request;
  request.key = exchange.key;
  request.id = exchange.request.id;
  const ServedModelPtr model = service.model(request.model);
  MessageHead head{.id = fresh_id("msg_"),
                   .model = shown_model(request.model, *model),
                   .headers = ignored_header(call.ignored)};
  std::shared_ptr<AnswerSink> sink;
  if (request.wants_parts)
    sink = std::make_shared<MessageStream>(exchange.reply, std::move(head));
  else
    sink = std::make_shared<MessageWhole>(exchange.reply, std::move(head));
  answer_renamed(service, std::move(request), std::move(sink), call.paths);
}

void count_tokens(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  AnthropicCall call = read_anthropic(json, service.sampling(), true);
  const int64_t count = count_prompt(service, std::move(call.request), call.paths);
  exchange.reply->send(
      {.headers = ignored_header(call.ignored), .body = concat(R"({"input_tokens":)", count, "}")});
}

}  // namespace

HttpResponse anthropic_error(const ApiError& error) {
  return {.status = error.status == 503 ? 529 : error.status,
          .headers = error.headers,
          .body = dumped(error_json(error))};
}

void add_anthropic_routes(Router& router, Service& service) {
  router.add({.method = "POST",
              .path = "/v1/messages",
              .handle = [&service](Exchange& exchange) { answer_messages(service, exchange); },
              .error = anthropic_error});
  router.add({.method = "POST",
              .path = "/v1/messages/count_tokens",
              .handle = [&service](Exchange& exchange) { count_tokens(service, exchange); },
              .error = anthropic_error});
}

}  // namespace tensora::serve

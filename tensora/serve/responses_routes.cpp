#include "tensora/serve/responses_routes.h"

#include <ctime>

#include "tensora/base/check.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/openai_shared.h"
#include "tensora/serve/responses_fields.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

/// An element of a response's output.
struct OutputItem {
  enum class Kind : uint8_t { reasoning, message, call };
  Kind kind;
  std::string id = {}, text = {}, call_id = {}, name = {};
  Json logprobs = Json::array();

  Json part() const {
    if (kind == Kind::reasoning) return {{"type", "reasoning_text"}, {"text", text}};
    return {{"type", "output_text"},
            {"text", text},
            {"annotations", Json::array()},
            {"logprobs", logprobs}};
  }
  Json json(std::string_view status, bool is_new = false) const {
    const Json content = is_new ? Json::array() : Json::array({part()});
    if (kind == Kind::reasoning)
      return {{"id", id},           {"type", "reasoning"},          {"summary", Json::array()},
              {"content", content}, {"encrypted_content", nullptr}, {"status", status}};
    if (kind == Kind::message)
      return {{"id", id},
              {"type", "message"},
              {"status", status},
              {"role", "assistant"},
              {"content", content}};
    return {{"id", id},     {"type", "function_call"}, {"status", status}, {"call_id", call_id},
            {"name", name}, {"arguments", text}};
  }
};

/// What the whole response and the stream have in common.
class ResponseState {
 public:
  ResponseState(std::string model_name, ServedModelPtr served, ResponsesCall& call)
      : id_(fresh_id("resp_")),
        created_(std::time(nullptr)),
        model_(std::move(model_name)),
        served_(std::move(served)),
        echoed_(std::move(call.echoed)),
        has_logprobs_(call.request.request.sampling.logprobs) {}

  OutputItem& add(OutputItem::Kind kind) {
    static constexpr const char* kPrefixes[] = {"rs_", "msg_", "fc_"};
    return items_.emplace_back(
        OutputItem{.kind = kind, .id = fresh_id(kPrefixes[static_cast<size_t>(kind)])});
  }
  std::vector<OutputItem>& items() { return items_; }
  bool has_logprobs() const { return has_logprobs_; }

  Json logprobs(std::span<const llm::Sampled> tokens) const {
    std::string text;
    append_logprobs(text, *served_->backend->tokenizer(), tokens);
    return Json::parse(text)["content"];
  }

  /// The response; `answer` is null until it has ended.
  Json json(std::string_view status, const Answer* answer, const Json& error = nullptr) const {
    Json out = {{"id", id_},
                {"object", "response"},
                {"created_at", created_},
                {"status", status},
                {"background", false},
                {"error", error},
                {"incomplete_details", nullptr},
                {"model", model_},
                {"output", Json::array()},
                {"previous_response_id", nullptr},
                {"store", false},
                {"usage", nullptr},
                {"user", nullptr}};
    out.update(echoed_);
    if (!answer) return out;
    if (status == "incomplete") out["incomplete_details"] = {{"reason", "max_output_tokens"}};
    for (size_t i = 0; i < items_.size(); ++i)
      out["output"].push_back(items_[i].json(status_of(i, *answer)));
    const llm::Usage& usage = answer->completion.usage;
    out["usage"] = {{"input_tokens", usage.prompt_tokens},
                    {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
                    {"output_tokens", usage.completion_tokens},
                    {"output_tokens_details", {{"reasoning_tokens", answer->reasoning_tokens}}},
                    {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
    return out;
  }
  static bool is_whole(const Answer& answer) {
    return answer.end == AnswerEnd::stop || answer.end == AnswerEnd::tool_calls;
  }
  /// Only the last item of an answer can be cut off.
  std::string_view status_of(size_t item, const Answer& answer) const {
    return is_whole(answer) || item + 1 < items_.size() ? "completed" : "incomplete";
  }

 private:
  std::string id_;
  int64_t created_;
  std::string model_;
  ServedModelPtr served_;
  Json echoed_;
  bool has_logprobs_;
  std::vector<OutputItem> items_;
};

/// The response in one piece.
class ResponseWhole final : public AnswerSink {
 public:
  ResponseWhole(ReplyPtr reply, ResponseState state, Headers headers)
      : AnswerSink(std::move(reply)), state_(std::move(state)), headers_(std::move(headers)) {}
  void on_event(const AnswerEvent&) override {}
  void on_flush() override {}
  void on_error(const ApiError& error) override { reply().send(openai_error(error)); }

  void on_end(const std::vector<Answer>& answers) override {
    const Answer& answer = answers.front();
    if (!answer.reasoning.empty()) state_.add(OutputItem::Kind::reasoning).text = answer.reasoning;
    if (!answer.text.empty()) {
      OutputItem& item = state_.add(OutputItem::Kind::message);
      item.text = answer.text;
      if (state_.has_logprobs()) item.logprobs = state_.logprobs(answer.text_logprobs);
    }
    for (const llm::ToolCall& call : answer.calls) {
      OutputItem& item = state_.add(OutputItem::Kind::call);
      item.call_id = call.id;
      item.name = call.name;
      item.text = call.arguments;
    }
    const char* status = ResponseState::is_whole(answer) ? "completed" : "incomplete";
    reply().send({.headers = std::move(headers_), .body = dumped(state_.json(status, &answer))});
  }

 private:
  ResponseState state_;
  Headers headers_;
};

/// The response as server-sent events, which the clients check for their order.
class ResponseStream final : public AnswerSink {
 public:
  ResponseStream(ReplyPtr reply, ResponseState state, Headers headers)
      : AnswerSink(std::move(reply)), state_(std::move(state)), headers_(std::move(headers)) {}

  void on_event(const AnswerEvent& event) override {
    using Kind = AnswerEvent::Kind;
    switch (event.kind) {
      case Kind::begin:
        has_begun_ = true;
        reply().begin(event_stream_head(headers_));
        give("response.created", {{"response", state_.json("in_progress", nullptr)}});
        give("response.in_progress", {{"response", state_.json("in_progress", nullptr)}});
        return;
      case Kind::text:
        return text(event);
      case Kind::reasoning:
        if (event.text.empty()) return;
        open(OutputItem::Kind::reasoning);
        return delta("response.reasoning_text.delta", event.text, nullptr);
      case Kind::call: {
        close("completed");
        OutputItem& item = state_.add(OutputItem::Kind::call);
        item.call_id = event.call_id;
        item.name = event.name;
        return opened();
      }
      case Kind::arguments:
        if (event.text.empty()) return;
        return delta("response.function_call_arguments.delta", event.text, nullptr);
      case Kind::end:
        return;
    }
  }
  void on_flush() override { write_out(out_); }
  void on_end(const std::vector<Answer>& answers) override {
    const Answer& answer = answers.front();
    const bool is_whole = ResponseState::is_whole(answer);
    close(is_whole ? "completed" : "incomplete");
    const char* status = is_whole ? "completed" : "incomplete";
    give(concat("response.", status), {{"response", state_.json(status, &answer)}});
    on_flush();
    reply().end();
  }
  void on_error(const ApiError& error) override {
    if (!has_begun_) return reply().send(openai_error(error));
    const Json problem = {{"code", error.code.empty() ? "server_error" : error.code},
                          {"message", error.what()}};
    give("response.failed", {{"response", state_.json("failed", nullptr, problem)}});
    on_flush();
    reply().end();
  }

 private:
  void text(const AnswerEvent& event) {
    if (event.text.empty() && !(state_.has_logprobs() && is_open_)) return;
    open(OutputItem::Kind::message);
    Json logprobs = Json::array();
    if (state_.has_logprobs()) {
      logprobs = state_.logprobs(event.tokens);
      if (event.text.empty() && logprobs.empty()) return;
      Json& all = state_.items().back().logprobs;
      all.insert(all.end(), logprobs.begin(), logprobs.end());
    }
    delta("response.output_text.delta", event.text, &logprobs);
  }

  size_t index() { return state_.items().size() - 1; }

  void give(std::string_view type, Json fields) {
    Json event = {{"type", type}, {"sequence_number", sequence_++}};
    event.update(fields);
    append_event(out_, type, dumped(event));
  }

  void open(OutputItem::Kind kind) {
    if (is_open_ && state_.items().back().kind == kind) return;
    close("completed");
    state_.add(kind);
    opened();
  }
  void opened() {
    const OutputItem& item = state_.items().back();
    is_open_ = true;
    give("response.output_item.added",
         {{"output_index", index()}, {"item", item.json("in_progress", true)}});
    if (item.kind != OutputItem::Kind::call)
      give("response.content_part.added", {{"item_id", item.id},
                                           {"output_index", index()},
                                           {"content_index", 0},
                                           {"part", item.part()}});
  }

  // Hot: a line of text for each piece of an answer.
  void delta(std::string_view type, const std::string& text, const Json* logprobs) {
    OutputItem& item = state_.items().back();
    item.text += text;
    std::string data = concat(R"({"type":")", type, R"(","sequence_number":)", sequence_++,
                              R"(,"item_id":")", item.id, R"(","output_index":)", index());
    if (item.kind != OutputItem::Kind::call) data += R"(,"content_index":0)";
    data += ",\"delta\":";
    append_json(data, text);
    if (logprobs) data += concat(",\"logprobs\":", dumped(*logprobs));
    append_event(out_, type, data + "}");
  }

  void close(std::string_view status) {
    if (!std::exchange(is_open_, false)) return;
    const OutputItem& item = state_.items().back();
    const Json place = {{"item_id", item.id}, {"output_index", index()}};
    Json done = place;
    if (item.kind == OutputItem::Kind::call) {
      done["name"] = item.name;
      done["arguments"] = item.text;
      give("response.function_call_arguments.done", done);
    } else {
      const bool is_text = item.kind == OutputItem::Kind::message;
      done["content_index"] = 0;
      done["text"] = item.text;
      if (is_text) done["logprobs"] = item.logprobs;
      give(is_text ? "response.output_text.done" : "response.reasoning_text.done", done);
      Json part = place;
      part["content_index"] = 0;
      part["part"] = item.part();
      give("response.content_part.done", part);
    }
    give("response.output_item.done", {{"output_index", index()}, {"item", item.json(status)}});
  }

  ResponseState state_;
  Headers headers_;
  std::string out_;
  int64_t sequence_ = 0;
  bool has_begun_ = false, is_open_ = false;
};

void answer_responses(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  ResponsesCall call = read_responses(json, service.sampling());
  AnswerRequest& request = call.request;
  request.key = exchange.key;
  request.id = exchange.request.id;
  const ServedModelPtr model = service.model(request.model);
  ResponseState state(shown_model(request.model, *model), model, call);
  Headers headers = ignored_header(call.ignored);
  std::shared_ptr<AnswerSink> sink;
  if (request.wants_parts)
    sink = std::make_shared<ResponseStream>(exchange.reply, std::move(state), std::move(headers));
  else
    sink = std::make_shared<ResponseWhole>(exchange.reply, std::move(state), std::move(headers));
  answer_renamed(service, std::move(request), std::move(sink), call.paths);
}

void count_input(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  ResponsesCall call = read_responses(json, service.sampling());
  const int64_t count = count_prompt(service, std::move(call.request), call.paths);
  exchange.reply->send(
      {.headers = ignored_header(call.ignored),
       .body = concat(R"({"object":"response.input_tokens","input_tokens":)", count, "}")});
}

}  // namespace

void add_responses_routes(Router& router, Service& service) {
  for (const char* path : {"/v1/responses", "/responses"})
    router.add({.method = "POST", .path = path, .handle = [&service](Exchange& exchange) {
                  answer_responses(service, exchange);
                }});
  router.add({.method = "POST",
              .path = "/v1/responses/input_tokens",
              .handle = [&service](Exchange& exchange) { count_input(service, exchange); }});
}

}  // namespace tensora::serve

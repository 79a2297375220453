#include "tensora/base/check.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/openai_fields.h"
#include "tensora/serve/openai_routes.h"
#include "tensora/serve/openai_shared.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

constexpr int64_t kMostAnswers = 128;

struct ChatCall {
  AnswerRequest request;
  bool includes_usage = false;
};

void read_logprobs(Fields& body, llm::SamplingOptions& sampling) {
  sampling.logprobs = body.boolean("logprobs").value_or(false);
  if (const auto top = body.integer("top_logprobs", 0, 20)) {
    if (*top > 0 && !sampling.logprobs) body.fail("top_logprobs", "needs logprobs to be true");
    sampling.top_logprobs = *top;
  }
}

// What asks for something that would change the answer, and that there is not.
void refuse_unusable(Fields& body) {
  if (const Json* modalities = body.list("modalities", 16); modalities)
    for (size_t i = 0; i < modalities->size(); ++i)
      if ((*modalities)[i] != "text")
        body.fail(concat("modalities[", i, "]"), "only text is supported");
  for (const char* name : {"audio", "web_search_options", "documents"})
    if (body.has(name)) body.fail(name, "is not supported");
  if (body.has("chat_template"))
    body.fail("chat_template", "templates come from the model or from the server's command line");
  // Labels and wishes without an effect on the answer.
  body.accept({"user", "safety_identifier", "metadata", "store", "service_tier", "prompt_cache_key",
               "stream_options"});
}

ChatCall read_chat(Fields& body, const llm::SamplingOptions& defaults) {
  ChatCall call;
  AnswerRequest& request = call.request;
  llm::Request& wanted = request.request;
  wanted.sampling = defaults;
  request.model = body.text("model").value_or("");
  wanted.messages = read_messages(body);
  read_sampling(body, wanted);
  read_logprobs(body, wanted.sampling);
  const auto most = read_token_count(body, "max_tokens", 1);
  wanted.max_tokens =
      read_token_count(body, "max_completion_tokens", 1).value_or(most.value_or(-1));
  request.n = body.integer("n", 1, kMostAnswers).value_or(1);
  request.tools = read_tool_use(body);
  read_response_format(body, wanted.sampling);
  read_template_variables(body, wanted.chat);
  read_continuation(body, wanted.chat);
  wanted.tenant = body.text("cache_salt").value_or("");
  request.wants_parts = body.boolean("stream").value_or(false);
  if (auto options = body.object("stream_options")) {
    if (!request.wants_parts) body.fail("stream_options", "needs stream to be true");
    call.includes_usage = options->boolean("include_usage").value_or(false);
    options->accept({"include_obfuscation"});
  }
  refuse_unusable(body);
  return call;
}

/// The answer in one piece.
class ChatWhole final : public AnswerSink {
 public:
  ChatWhole(ReplyPtr reply, OpenAiHead head, const AnswerRequest& request)
      : AnswerSink(std::move(reply)),
        head_(std::move(head)),
        has_logprobs_(request.request.sampling.logprobs) {}

  void on_event(const AnswerEvent&) override {}
  void on_flush() override {}
  void on_error(const ApiError& error) override { reply().send(openai_error(error)); }

  void on_end(const std::vector<Answer>& answers) override {
    std::string out = head_.text() + ",\"choices\":[";
    for (size_t i = 0; i < answers.size(); ++i) append_choice(out, i, answers[i]);
    out += concat("],\"usage\":", usage_json(answers, static_cast<int64_t>(answers.size())),
                  ",\"timings\":", timings_json(answers[0]), "}");
    reply().send({.headers = head_.headers, .body = std::move(out)});
  }

 private:
  void append_choice(std::string& out, size_t index, const Answer& answer) const {
    out += concat(index > 0 ? "," : "", "{\"index\":", index,
                  ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (answer.text.empty() && !answer.calls.empty())
      out += "null";
    else
      append_json(out, answer.text);
    out += ",\"refusal\":null";
    if (!answer.reasoning.empty()) {
      out += ",\"reasoning_content\":";
      append_json(out, answer.reasoning);
    }
    if (!answer.calls.empty()) append_calls(out, answer);
    out += "},\"logprobs\":";
    if (has_logprobs_)
      append_logprobs(out, *head_.served->backend->tokenizer(), answer.text_logprobs);
    else
      out += "null";
    out += concat(",\"finish_reason\":\"", finish_reason(answer.end),
                  "\",\"seed\":", answer.completion.seed, "}");
  }

  static void append_calls(std::string& out, const Answer& answer) {
    out += ",\"tool_calls\":[";
    for (size_t i = 0; i < answer.calls.size(); ++i) {
      const llm::ToolCall& call = answer.calls[i];
      out += concat(i > 0 ? "," : "", "{\"id\":", json_string(call.id),
                    ",\"type\":\"function\",\"function\":{\"name\":", json_string(call.name),
                    ",\"arguments\":", json_string(call.arguments), "}}");
    }
    out += ']';
  }

  OpenAiHead head_;
  bool has_logprobs_;
};

/// The answer as server-sent events.
class ChatStream final : public OpenAiStream {
 public:
  ChatStream(ReplyPtr reply, const OpenAiHead& head, const ChatCall& call)
      : OpenAiStream(std::move(reply), head, call.request, call.includes_usage) {}

  void on_event(const AnswerEvent& event) override {
    using Kind = AnswerEvent::Kind;
    switch (event.kind) {
      case Kind::begin:
        open(event);
        out_ += "\"role\":\"assistant\",\"content\":\"\"";
        close(event);
        break;
      case Kind::text:
        // Half a character has no text yet, and the end has none at all.
        if (event.text.empty() && !(has_logprobs() && has_shown(event.tokens))) break;
        add_text(event, "\"content\":");
        break;
      case Kind::reasoning:
        if (!event.text.empty()) add_text(event, "\"reasoning_content\":");
        break;
      case Kind::call:
        open(event);
        out_ += concat("\"tool_calls\":[{\"index\":", event.call,
                       ",\"id\":", json_string(event.call_id),
                       ",\"type\":\"function\",\"function\":{\"name\":", json_string(event.name),
                       ",\"arguments\":\"\"}}]");
        close(event);
        break;
      case Kind::arguments:
        if (event.text.empty()) break;
        open(event);
        out_ += concat("\"tool_calls\":[{\"index\":", event.call, ",\"function\":{\"arguments\":");
        append_json(out_, event.text);
        out_ += "}}]";
        close(event);
        break;
      case Kind::end:
        open(event);
        out_ += concat("},\"logprobs\":null,\"finish_reason\":\"", finish_reason(event.end),
                       "\",\"seed\":", event.whole->completion.seed);
        close_choice();
        break;
    }
  }

 private:
  void open(const AnswerEvent& event) {
    open_choice(event.answer);
    out_ += ",\"delta\":{";
  }
  void add_text(const AnswerEvent& event, const char* name) {
    open(event);
    out_ += name;
    append_json(out_, event.text);
    close(event);
  }
  void close(const AnswerEvent& event) {
    out_ += "},\"logprobs\":";
    if (has_logprobs() && event.kind == AnswerEvent::Kind::text)
      append_logprobs(out_, tokenizer(), event.tokens);
    else
      out_ += "null";
    out_ += ",\"finish_reason\":null";
    close_choice();
  }
};

void answer_chat(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  Fields body(json);
  ChatCall call = read_chat(body, service.sampling());
  AnswerRequest& request = call.request;
  request.key = exchange.key;
  request.id = exchange.request.id;
  const ServedModelPtr model = service.model(request.model);
  OpenAiHead head("chatcmpl-", request.wants_parts ? "chat.completion.chunk" : "chat.completion",
                  shown_model(request.model, *model), model);
  head.headers = ignored_header(body.unread());
  std::shared_ptr<AnswerSink> sink;
  if (request.wants_parts)
    sink = std::make_shared<ChatStream>(exchange.reply, head, call);
  else
    sink = std::make_shared<ChatWhole>(exchange.reply, std::move(head), request);
  service.answer(std::move(request), std::move(sink));
}

}  // namespace

void add_openai_chat_routes(Router& router, Service& service) {
  for (const char* path : {"/v1/chat/completions", "/chat/completions"})
    router.add({.method = "POST", .path = path, .handle = [&service](Exchange& exchange) {
                  answer_chat(service, exchange);
                }});
}

}  // namespace tensora::serve

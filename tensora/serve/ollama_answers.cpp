#include "tensora/base/check.h"
#include "tensora/serve/dialect.h"
#include "tensora/serve/fill_middle.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/ollama_routes.h"
#include "tensora/serve/openai_shared.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

constexpr size_t kMostMessages = 100'000, kMostCalls = 1024, kMostTools = 1024;

struct OllamaCall {
  AnswerRequest request = {};
  PathNames paths = {{"response_format.json_schema.schema", "format"}};
  std::vector<std::string> ignored = {};
  bool is_chat = true;
  bool only_loads = false;  // a request without a prompt loads the model
};

void refuse_images(Fields& fields) {
  if (const Json* images = fields.list("images", 1024); images && !images->empty())
    fields.fail("images", "only text is supported");
}

llm::Message read_message(Fields fields) {
  if (!fields.has("role")) fields.fail("role", "is required");
  llm::Message message{.role = *fields.choice("role", {"system", "user", "assistant", "tool"})};
  message.content = fields.text("content").value_or("");
  message.reasoning = fields.text("thinking").value_or("");
  message.name = fields.text("tool_name").value_or(fields.text("name").value_or(""));
  message.tool_call_id = fields.text("tool_call_id").value_or("");
  refuse_images(fields);
  const Json* calls = fields.list("tool_calls", kMostCalls);
  for (size_t i = 0; calls && i < calls->size(); ++i) {
    Fields call = fields.below((*calls)[i], concat(fields.path_of("tool_calls"), "[", i, "]"));
    call.accept({"type"});
    Fields function = call.below(call.at("function"), call.path_of("function"));
    function.accept({"index"});
    const Json* arguments = function.find("arguments");
    if (arguments && !arguments->is_object())
      function.fail("arguments", concat("expected an object, got ", kind_of(*arguments)));
    message.tool_calls.push_back({.id = call.text("id").value_or(""),
                                  .name = function.required_text("name"),
                                  .arguments = arguments ? arguments->dump() : "{}"});
  }
  return message;
}

void read_tools(Fields& body, ToolUse& use) {
  const Json* tools = body.list("tools", kMostTools);
  if (!tools || tools->empty()) return;
  use.tools = tools->dump();
}

void read_format(Fields& body, llm::SamplingOptions& sampling) {
  const Json* format = body.find("format");
  if (!format || *format == "") return;
  if (*format == "json")
    sampling.json_schema = R"({"type":"object"})";
  else if (format->is_object())
    sampling.json_schema = format->dump();
  else
    body.fail("format", "expected \"json\" or a JSON schema");
}

void read_think(Fields& body, llm::ChatOptions& chat) {
  const Json* think = body.find("think");
  if (!think) return;
  if (think->is_boolean()) return set_template_variable(chat, "enable_thinking", *think);
  set_template_variable(chat, "reasoning_effort", *body.choice("think", {"low", "medium", "high"}));
}

// What else options may have, as num_ctx, was decided when the server started.
void read_options(Fields& body, OllamaCall& call) {
  llm::Request& wanted = call.request.request;
  auto options = body.object("options");
  if (!options) return;
  read_sampling(*options, wanted, SamplingRanges::engine);
  if (const auto most = options->integer("num_predict", -2, 1LL << 60))
    wanted.max_tokens = *most < 0 ? -1 : *most;
  if (const auto keep = options->integer("num_keep", -1, 1 << 30))
    wanted.keep = std::max<int64_t>(0, *keep);
}

void read_generate(Fields& body, Service& service, OllamaCall& call) {
  llm::Request& wanted = call.request.request;
  std::string prompt = body.text("prompt").value_or("");
  const auto system = body.text("system");
  refuse_images(body);
  for (const char* name : {"template", "context"})
    if (const Json* value = body.find(name); value && !value->empty() && *value != "")
      body.fail(name, "is not supported");
  call.only_loads = prompt.empty();
  if (const auto suffix = body.text("suffix"); suffix && !suffix->empty()) {
    const llm::TokenizerPtr tokenizer = service.model(call.request.model)->backend->tokenizer();
    auto tokens =
        tokenizer ? fill_prompt(*tokenizer, {.prefix = prompt, .suffix = *suffix}) : std::nullopt;
    if (!tokens) body.fail("suffix", "the model has no tokens for filling in the middle of a text");
    call.only_loads = false;
    call.request.prompts = {std::move(*tokens)};
    return;
  }
  if (body.boolean("raw").value_or(false)) {
    wanted.prompt = std::move(prompt);
    wanted.parse_special = true;
    return;
  }
  if (system && !system->empty()) wanted.messages.push_back({.role = "system", .content = *system});
  wanted.messages.push_back({.role = "user", .content = std::move(prompt)});
}

OllamaCall read_call(const Json& json, Service& service, bool is_chat) {
  Fields body(json);
  OllamaCall call{.is_chat = is_chat};
  llm::Request& wanted = call.request.request;
  wanted.sampling = service.sampling();
  call.request.model = without_latest(body.text("model").value_or(""));
  if (is_chat) {
    const Json* messages = body.list("messages", kMostMessages);
    call.only_loads = !messages || messages->empty();
    for (size_t i = 0; messages && i < messages->size(); ++i)
      wanted.messages.push_back(
          read_message(body.below((*messages)[i], concat("messages[", i, "]"))));
    continue_assistant(wanted);
    read_tools(body, call.request.tools);
  } else {
    read_generate(body, service, call);
  }
  read_options(body, call);
  read_format(body, wanted.sampling);
  read_think(body, wanted.chat);
  wanted.sampling.logprobs = body.boolean("logprobs").value_or(false);
  wanted.sampling.top_logprobs = body.integer("top_logprobs", 0, 20).value_or(0);
  call.request.wants_parts = body.boolean("stream").value_or(true);
  body.accept({"keep_alive", "truncate", "shift"});
  for (std::string& name : body.unread()) call.ignored.push_back(std::move(name));
  return call;
}

/// A line of JSON for each part of an answer, or one for all of it.
class OllamaSink final : public AnswerSink {
 public:
  OllamaSink(ReplyPtr reply, std::string model, ServedModelPtr served, const OllamaCall& call)
      : AnswerSink(std::move(reply)),
        model_(std::move(model)),
        served_(std::move(served)),
        headers_(ignored_header(call.ignored)),
        is_chat_(call.is_chat),
        has_logprobs_(call.request.request.sampling.logprobs) {}

  void on_event(const AnswerEvent& event) override {
    using Kind = AnswerEvent::Kind;
    if (event.kind == Kind::begin) {
      has_begun_ = true;
      reply().begin({.content_type = "application/x-ndjson", .headers = headers_});
    } else if (event.kind == Kind::text || event.kind == Kind::reasoning) {
      if (event.text.empty()) return;
      const bool is_text = event.kind == Kind::text;
      Part part{.text = is_text ? event.text : "", .thinking = is_text ? "" : event.text};
      if (is_text && has_logprobs_) part.logprobs = event.tokens;
      line(part);
    } else if (event.kind == Kind::call) {
      give_call();
      call_ = llm::ToolCall{.id = event.call_id, .name = event.name};
    } else if (event.kind == Kind::arguments && call_) {
      call_->arguments += event.text;
    } else if (event.kind == Kind::end) {
      give_call();
    }
  }
  void on_flush() override { write_out(out_); }
  void on_end(const std::vector<Answer>& answers) override {
    const Answer& answer = answers.front();
    Part part;
    if (!has_begun_) {
      part = {.text = answer.text, .thinking = answer.reasoning, .logprobs = answer.text_logprobs};
      for (const llm::ToolCall& call : answer.calls) part.calls.push_back(call_json(call));
    }
    line(part, &answer);
    if (!has_begun_) {
      out_.pop_back();  // a document, not a line
      return reply().send({.headers = headers_, .body = std::move(out_)});
    }
    on_flush();
    reply().end();
  }
  void on_error(const ApiError& error) override {
    if (!has_begun_) return reply().send(ollama_error(error));
    out_ += dumped({{"error", error.what()}}) + "\n";
    on_flush();
    reply().end();
  }

 private:
  struct Part {
    std::string text = {}, thinking = {};
    Json calls = Json::array();
    std::vector<llm::Sampled> logprobs = {};
  };

  // Clients want the arguments as an object, so a call is given when it is whole.
  void give_call() {
    if (!call_) return;
    Part part;
    part.calls.push_back(call_json(*call_));
    call_.reset();
    line(part);
  }
  Json call_json(const llm::ToolCall& call) {
    return {{"id", call.id},
            {"function",
             {{"index", calls_++}, {"name", call.name}, {"arguments", arguments_of(call)}}}};
  }

  void line(const Part& part, const Answer* answer = nullptr) {
    out_ += concat("{\"model\":", json_string(model_), ",\"created_at\":\"", iso_time(), "\"");
    out_ += is_chat_ ? R"(,"message":{"role":"assistant","content":)" : R"(,"response":)";
    append_json(out_, part.text);
    if (!part.thinking.empty()) out_ += concat(",\"thinking\":", json_string(part.thinking));
    if (!part.calls.empty()) out_ += concat(",\"tool_calls\":", dumped(part.calls));
    if (is_chat_) out_ += '}';
    if (!part.logprobs.empty()) {
      std::string text;
      append_logprobs(text, *served_->backend->tokenizer(), part.logprobs);
      out_ += concat(",\"logprobs\":", dumped(Json::parse(text)["content"]));
    }
    if (!answer) {
      out_ += ",\"done\":false}\n";
      return;
    }
    const llm::Completion& completion = answer->completion;
    const auto nanoseconds = [](double seconds) { return static_cast<int64_t>(seconds * 1e9); };
    const bool is_cut = answer->end == AnswerEnd::length || answer->end == AnswerEnd::deadline;
    out_ += concat(",\"done\":true,\"done_reason\":\"", is_cut ? "length" : "stop",
                   "\",\"total_duration\":", nanoseconds(completion.timings.total),
                   ",\"load_duration\":0,\"prompt_eval_count\":", completion.usage.prompt_tokens,
                   ",\"prompt_eval_duration\":", nanoseconds(completion.timings.prompt),
                   ",\"eval_count\":", completion.usage.completion_tokens,
                   ",\"eval_duration\":", nanoseconds(completion.timings.predicted), "}\n");
  }

  std::string model_;
  ServedModelPtr served_;
  Headers headers_;
  std::string out_;
  std::optional<llm::ToolCall> call_;  // whose arguments are coming
  int64_t calls_ = 0;
  bool is_chat_, has_logprobs_, has_begun_ = false;
};

void answer(Service& service, Exchange& exchange, bool is_chat) {
  const Json json = parse_body(exchange.request.body);
  OllamaCall call = read_call(json, service, is_chat);
  call.request.key = exchange.key;
  call.request.id = exchange.request.id;
  const ServedModelPtr model = service.model(call.request.model);
  const std::string name = shown_model(call.request.model, *model);
  if (call.only_loads) {
    Json out = {{"model", name}, {"created_at", iso_time()}};
    if (is_chat)
      out["message"] = {{"role", "assistant"}, {"content", ""}};
    else
      out["response"] = "";
    out["done"] = true;
    out["done_reason"] = "load";
    return exchange.reply->send({.headers = ignored_header(call.ignored), .body = dumped(out)});
  }
  auto sink = std::make_shared<OllamaSink>(exchange.reply, name, model, call);
  answer_renamed(service, std::move(call.request), std::move(sink), call.paths);
}

}  // namespace

void add_ollama_answer_routes(Router& router, Service& service) {
  for (const bool is_chat : {true, false})
    router.add(
        {.method = "POST",
         .path = is_chat ? "/api/chat" : "/api/generate",
         .handle = [&service, is_chat](Exchange& exchange) { answer(service, exchange, is_chat); },
         .error = ollama_error});
}

}  // namespace tensora::serve

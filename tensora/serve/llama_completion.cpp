#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/serve/dialect.h"
#include "tensora/serve/fill_middle.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/llama_routes.h"
#include "tensora/serve/openai_shared.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

struct CompletionCall {
  AnswerRequest request = {};
  std::vector<std::string> ignored = {};
  bool returns_tokens = false;
};

void read_common(Fields& body, CompletionCall& call) {
  llm::Request& wanted = call.request.request;
  read_sampling(body, wanted, SamplingRanges::engine);
  if (const auto most = body.integer("n_predict", -2, 1LL << 60))
    wanted.max_tokens = *most < 0 ? -1 : *most;
  else
    wanted.max_tokens = read_token_count(body, "max_tokens", 1).value_or(-1);
  if (const Json* schema = body.find("json_schema")) {
    if (!wanted.sampling.grammar.empty()) body.fail("json_schema", "expected this or grammar");
    wanted.sampling.json_schema = schema->dump();
  }
  const int64_t probabilities = body.integer("n_probs", 0, 20).value_or(0);
  wanted.sampling.logprobs = probabilities > 0;
  wanted.sampling.top_logprobs = probabilities;
  wanted.keep = std::max<int64_t>(0, body.integer("n_keep", -1, 1 << 30).value_or(0));
  wanted.reuse_prefix = body.boolean("cache_prompt").value_or(true);
  call.returns_tokens = body.boolean("return_tokens").value_or(false);
  call.request.model = body.text("model").value_or("");
  call.request.wants_parts = body.boolean("stream").value_or(false);
  body.accept({"id_slot", "user"});
}

// A string, tokens, or a list of both.
std::vector<int32_t> read_prompt(const Json& prompt, const std::string& path,
                                 const llm::Tokenizer& tokenizer) {
  const auto encode = [&](const Json& text, bool is_first) {
    return tokenizer.encode(text.get_ref<const std::string&>(),
                            {.add_special = is_first, .parse_special = true});
  };
  if (prompt.is_string()) return encode(prompt, true);
  if (!prompt.is_array())
    throw ApiError(400, concat(path, ": expected a string or a list, got ", kind_of(prompt)), path);
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < prompt.size(); ++i) {
    std::vector<int32_t> part;
    if (prompt[i].is_string())
      part = encode(prompt[i], i == 0);
    else
      part = read_tokens(Json::array({prompt[i]}), path, tokenizer.vocab_size());
    tokens.insert(tokens.end(), part.begin(), part.end());
  }
  return tokens;
}

/// The answers of /completion and /infill.
class CompletionSink final : public AnswerSink {
 public:
  CompletionSink(ReplyPtr reply, std::string model, ServedModelPtr served,
                 const CompletionCall& call)
      : AnswerSink(std::move(reply)),
        model_(std::move(model)),
        served_(std::move(served)),
        headers_(ignored_header(call.ignored)),
        returns_tokens_(call.returns_tokens),
        has_logprobs_(call.request.request.sampling.logprobs) {}

  void on_event(const AnswerEvent& event) override {
    if (event.kind == AnswerEvent::Kind::begin) {
      has_begun_ = true;
      evaluated_ = event.prompt_tokens;
      reply().begin(event_stream_head(headers_));
    }
    if (event.kind != AnswerEvent::Kind::text) return;
    predicted_ += std::ssize(event.tokens);
    tokens_.insert(tokens_.end(), event.tokens.begin(), event.tokens.end());
    if (event.text.empty()) return;
    out_ += concat(R"(data: {"index":0,"content":)", json_string(event.text), R"(,"tokens":[)");
    for (size_t i = 0; i < tokens_.size(); ++i) out_ += concat(i > 0 ? "," : "", tokens_[i].token);
    out_ += concat(R"(],"stop":false,"id_slot":0,"tokens_predicted":)", predicted_,
                   R"(,"tokens_evaluated":)", evaluated_);
    if (has_logprobs_)
      out_ += concat(",\"completion_probabilities\":", dumped(probabilities(tokens_)));
    out_ += "}\n\n";
    tokens_.clear();
  }
  void on_flush() override { write_out(out_); }
  void on_end(const std::vector<Answer>& answers) override {
    Json out = end_json(answers.front());
    if (!has_begun_) return reply().send({.headers = headers_, .body = dumped(out)});
    out["content"] = "";
    // Behind the last text: the token that ended the answer, those of a stop string.
    out["tokens"] = Json::array();
    for (const llm::Sampled& one : tokens_) out["tokens"].push_back(one.token);
    if (has_logprobs_) out["completion_probabilities"] = probabilities(tokens_);
    out_ += concat("data: ", dumped(out), "\n\n");
    on_flush();
    reply().end();
  }
  void on_error(const ApiError& error) override {
    const HttpResponse response = openai_error(error);
    if (!has_begun_) return reply().send(response);
    out_ += concat("data: ", response.body, "\n\n");
    on_flush();
    reply().end();
  }

 private:
  Json probabilities(std::span<const llm::Sampled> tokens) const {
    std::string text;
    append_logprobs(text, *served_->backend->tokenizer(), tokens);
    return Json::parse(text)["content"];
  }

  Json end_json(const Answer& answer) const {
    const llm::Completion& completion = answer.completion;
    const llm::Usage& usage = completion.usage;
    const bool is_cut = answer.end == AnswerEnd::length || answer.end == AnswerEnd::deadline;
    Json out = {{"index", 0},
                {"content", answer.text},
                {"tokens", returns_tokens_ ? Json(completion.tokens) : Json::array()},
                {"id_slot", 0},
                {"stop", true},
                {"model", model_},
                {"tokens_predicted", usage.completion_tokens},
                {"tokens_evaluated", usage.prompt_tokens},
                {"tokens_cached", usage.cached_tokens},
                {"has_new_line", answer.text.find('\n') != std::string::npos},
                {"truncated", usage.truncated_tokens > 0},
                {"stop_type", is_cut                    ? "limit"
                              : completion.stop.empty() ? "eos"
                                                        : "word"},
                {"stopping_word", completion.stop},
                {"seed", completion.seed}};
    if (has_logprobs_) out["completion_probabilities"] = probabilities(answer.text_logprobs);
    const Json timed = Json::parse(completion.to_json(), nullptr, false);
    if (timed.is_object() && timed.contains("timings")) out["timings"] = timed["timings"];
    return out;
  }

  std::string model_;
  ServedModelPtr served_;
  Headers headers_;
  std::string out_;
  std::vector<llm::Sampled> tokens_;  // not written yet
  int64_t predicted_ = 0, evaluated_ = 0;
  bool returns_tokens_, has_logprobs_, has_begun_ = false;
};

void submit(Service& service, Exchange& exchange, CompletionCall call, Fields& body,
            const ServedModelPtr& model) {
  call.request.key = exchange.key;
  call.request.id = exchange.request.id;
  call.ignored = body.unread();
  auto sink = std::make_shared<CompletionSink>(
      exchange.reply, shown_model(call.request.model, *model), model, call);
  answer_renamed(service, std::move(call.request), std::move(sink),
                 {{"response_format.json_schema.schema", "json_schema"}});
}

llm::TokenizerPtr tokenizer_of(const ServedModel& model) {
  llm::TokenizerPtr tokenizer = model.backend->tokenizer();
  if (!tokenizer) throw ApiError(400, "the model has no tokenizer", "model");
  return tokenizer;
}

void complete(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  Fields body(json);
  CompletionCall call;
  call.request.request.sampling = service.sampling();
  read_common(body, call);
  const ServedModelPtr model = service.model(call.request.model);
  call.request.prompts = {read_prompt(body.at("prompt"), "prompt", *tokenizer_of(*model))};
  submit(service, exchange, std::move(call), body, model);
}

// Other files come first, each behind its name.
std::string read_extra(Fields& body) {
  std::string text;
  const Json* extra = body.list("input_extra", 1024);
  for (size_t i = 0; extra && i < extra->size(); ++i) {
    Fields file = body.below((*extra)[i], concat("input_extra[", i, "]"));
    text += concat("\n\n--- ", file.text("filename").value_or("snippet"), " ---\n\n",
                   file.required_text("text"));
  }
  return text.empty() ? text : text + "\n\n--- file ---\n\n";
}

void infill(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  Fields body(json);
  CompletionCall call;
  call.request.request.sampling = service.sampling();
  read_common(body, call);
  const std::string extra = read_extra(body);
  const std::string prefix = body.required_text("input_prefix"),
                    suffix = body.required_text("input_suffix"),
                    start = body.text("prompt").value_or("");
  const ServedModelPtr model = service.model(call.request.model);
  const llm::TokenizerPtr tokenizer = tokenizer_of(*model);
  auto tokens = fill_prompt(*tokenizer,
                            {.before = extra, .prefix = prefix, .suffix = suffix, .start = start});
  if (!tokens)
    throw ApiError(400, "the model has no tokens for filling in the middle of a text", "model",
                   "not_supported");
  call.request.prompts = {std::move(*tokens)};
  submit(service, exchange, std::move(call), body, model);
}

}  // namespace

void add_llama_completion_routes(Router& router, Service& service) {
  router.add({.method = "POST", .path = "/completion", .handle = [&service](Exchange& exchange) {
                complete(service, exchange);
              }});
  router.add({.method = "POST", .path = "/infill", .handle = [&service](Exchange& exchange) {
                infill(service, exchange);
              }});
}

}  // namespace tensora::serve

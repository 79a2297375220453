#include "tensora/serve/openai_shared.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "tensora/base/check.h"
#include "tensora/base/entropy.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/router.h"

namespace tensora::serve {

std::string fresh_id(std::string_view prefix) {
  constexpr char kHex[] = "0123456789abcdef";
  std::array<unsigned char, 12> bytes{};
  fill_with_entropy(bytes.data(), bytes.size());
  std::string id(prefix);
  for (const unsigned char byte : bytes) id += {kHex[byte >> 4], kHex[byte & 15]};
  return id;
}

std::string shown_model(const std::string& asked, const ServedModel& model) {
  return asked.empty() ? model.name : asked;
}

OpenAiHead::OpenAiHead(std::string_view id_prefix, std::string object_name, std::string model_name,
                       ServedModelPtr served_model)
    : id(fresh_id(id_prefix)),
      object(std::move(object_name)),
      model(std::move(model_name)),
      created(std::time(nullptr)),
      served(std::move(served_model)) {}

std::string OpenAiHead::text() const {
  std::string out = "{\"id\":";
  append_json(out, id);
  out += ",\"object\":";
  append_json(out, object);
  out += ",\"created\":";
  append_json(out, created);
  out += ",\"model\":";
  append_json(out, model);
  // Answers with the same seed are the same as long as this is.
  out += ",\"system_fingerprint\":";
  append_json(out, concat("tensora-", served->backend->label()));
  return out;
}

std::string_view finish_reason(AnswerEnd end) {
  switch (end) {
    case AnswerEnd::tool_calls:
      return "tool_calls";
    case AnswerEnd::length:
    case AnswerEnd::deadline:
      return "length";
    case AnswerEnd::stop:
    case AnswerEnd::cancelled:
      return "stop";
  }
  return "stop";
}

std::string usage_json(std::span<const Answer> answers, int64_t n) {
  int64_t prompt = 0, cached = 0, completion = 0, reasoning = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const llm::Usage& usage = answers[i].completion.usage;
    if (static_cast<int64_t>(i) % n == 0) {  // answers of one prompt share it
      prompt += usage.prompt_tokens;
      cached += usage.cached_tokens;
    }
    completion += usage.completion_tokens;
    reasoning += answers[i].reasoning_tokens;
  }
  return concat("{\"prompt_tokens\":", prompt, ",\"completion_tokens\":", completion,
                ",\"total_tokens\":", prompt + completion,
                ",\"prompt_tokens_details\":{\"cached_tokens\":", cached,
                "},\"completion_tokens_details\":{\"reasoning_tokens\":", reasoning, "}}");
}

std::string timings_json(const Answer& answer) {
  const llm::Completion& completion = answer.completion;
  const llm::Timings& timings = completion.timings;
  std::string out = "{\"queue_ms\":";
  append_json(out, timings.queued * 1e3);
  const auto add = [&](const char* name, double value) {
    out += name;
    append_json(out, value);
  };
  add(",\"first_token_ms\":", timings.first_token * 1e3);
  add(",\"prompt_ms\":", timings.prompt * 1e3);
  add(",\"predicted_ms\":", timings.predicted * 1e3);
  add(",\"total_ms\":", timings.total * 1e3);
  add(",\"prompt_per_second\":", completion.prompt_per_second());
  add(",\"predicted_per_second\":", completion.predicted_per_second());
  return out + "}";
}

bool is_shown(const llm::Tokenizer& tokenizer, int32_t token) {
  return !tokenizer.bytes_of(token).empty();
}

namespace {

void append_token(std::string& out, const llm::Tokenizer& tokenizer, int32_t token, float logprob) {
  const std::string& bytes = tokenizer.bytes_of(token, {.special = true});
  out += "{\"token\":";
  append_json(out, bytes);
  out += ",\"logprob\":";
  // JSON has no infinity: OpenAI's clients know this number as "impossible".
  append_json(out, static_cast<double>(std::max(logprob, -9999.f)));
  out += ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_json(out, static_cast<int64_t>(static_cast<unsigned char>(bytes[i])));
  }
  out += ']';
}

}  // namespace

void append_logprobs(std::string& out, const llm::Tokenizer& tokenizer,
                     std::span<const llm::Sampled> tokens) {
  out += "{\"content\":[";
  bool is_first = true;
  for (const llm::Sampled& sampled : tokens) {
    if (!is_shown(tokenizer, sampled.token)) continue;
    if (!std::exchange(is_first, false)) out += ',';
    append_token(out, tokenizer, sampled.token, sampled.logprob);
    out += ",\"top_logprobs\":[";
    for (size_t i = 0; i < sampled.top.size(); ++i) {
      if (i > 0) out += ',';
      append_token(out, tokenizer, sampled.top[i].token, sampled.top[i].logprob);
      out += '}';
    }
    out += "]}";
  }
  out += "],\"refusal\":null}";
}

OpenAiStream::OpenAiStream(ReplyPtr reply, const OpenAiHead& head, const AnswerRequest& request,
                           bool includes_usage)
    : AnswerSink(std::move(reply)),
      headers_(head.headers),
      tokenizer_(head.served->backend->tokenizer()),
      prefix_("data: " + head.text() + ",\"choices\":["),
      tail_(includes_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n"),
      n_(request.n),
      includes_usage_(includes_usage),
      has_logprobs_(request.request.sampling.logprobs) {}

void OpenAiStream::open_choice(int64_t answer) {
  out_ += prefix_;
  out_ += "{\"index\":";
  append_json(out_, answer);
}

bool OpenAiStream::has_shown(std::span<const llm::Sampled> tokens) const {
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const llm::Sampled& one) { return is_shown(*tokenizer_, one.token); });
}

void OpenAiStream::on_flush() {
  if (out_.empty()) return;
  if (std::exchange(has_begun_, true))
    write_out(out_);
  else
    reply().begin({.content_type = "text/event-stream",
                   .headers = headers_,
                   .body = std::exchange(out_, {})});
}

void OpenAiStream::on_end(const std::vector<Answer>& answers) {
  if (includes_usage_)
    out_ += concat(prefix_, "],\"usage\":", usage_json(answers, n_),
                   ",\"timings\":", timings_json(answers[0]), "}\n\n");
  out_ += "data: [DONE]\n\n";
  on_flush();
  reply().end();
}

void OpenAiStream::on_error(const ApiError& error) {
  HttpResponse response = openai_error(error);
  if (!has_begun_) {
    reply().send(std::move(response));
    return;
  }
  out_ += concat("data: ", response.body, "\n\n");
  on_flush();
  reply().end();
}

}  // namespace tensora::serve

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tensora/serve/json_fields.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

/// What every part of an answer to one of OpenAI's requests begins with.
struct OpenAiHead {
  OpenAiHead(std::string_view id_prefix, std::string object_name, std::string model_name,
             ServedModelPtr served_model);

  std::string id, object, model;
  int64_t created = 0;
  ServedModelPtr served;
  Headers headers = {};

  /// {"id":…,"object":…,"created":…,"model":…,"system_fingerprint":…  without a closing brace.
  std::string text() const;
};

/// An id that nobody can guess: "chatcmpl-" and 24 hexadecimal digits.
std::string fresh_id(std::string_view prefix);
/// What the model is called in answers: as the client named it.
std::string shown_model(const std::string& asked, const ServedModel& model);

/// "stop", "length" or "tool_calls".
std::string_view finish_reason(AnswerEnd end);
/// The object `usage` of all answers, n of each prompt.
std::string usage_json(std::span<const Answer> answers, int64_t n);
/// An object with times in milliseconds and rates, of one answer: for people and pages.
std::string timings_json(const Answer& answer);

/// Whether a token is part of the text: those that end an answer are not.
bool is_shown(const llm::Tokenizer& tokenizer, int32_t token);
/// {"content":[…],"refusal":null}: tokens with their bytes, logprobs and alternatives.
void append_logprobs(std::string& out, const llm::Tokenizer& tokenizer,
                     std::span<const llm::Sampled> tokens);

/// A stream of server-sent events, ended by [DONE]. Of a chunk only the choice changes: the rest is
/// made once.
class OpenAiStream : public AnswerSink {
 public:
  void on_flush() override;
  void on_end(const std::vector<Answer>& answers) override;
  /// In mid-stream an event {"error": …} is the last one.
  void on_error(const ApiError& error) override;

 protected:
  OpenAiStream(ReplyPtr reply, const OpenAiHead& head, const AnswerRequest& request,
               bool includes_usage);

  /// Begins a chunk with a choice: …"choices":[{"index":0
  void open_choice(int64_t answer);
  /// Ends it, after the choice's last field.
  void close_choice() { out_ += tail_; }
  bool has_logprobs() const { return has_logprobs_; }
  /// Whether some of the tokens are part of the text.
  bool has_shown(std::span<const llm::Sampled> tokens) const;
  const llm::Tokenizer& tokenizer() const { return *tokenizer_; }

  std::string out_;  // not yet written

 private:
  Headers headers_;
  llm::TokenizerPtr tokenizer_;
  std::string prefix_, tail_;
  int64_t n_;
  bool includes_usage_, has_logprobs_, has_begun_ = false;
};

}  // namespace tensora::serve

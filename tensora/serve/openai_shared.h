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

/// The head of a stream of server-sent events.
HttpResponse event_stream(const Headers& headers);

}  // namespace tensora::serve

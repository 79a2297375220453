#pragma once

#include <string>
#include <vector>

#include "tensora/serve/dialect.h"

namespace tensora::serve {

/// A request of OpenAI's responses.
struct ResponsesCall {
  AnswerRequest request = {};
  /// The fields that a response repeats: instructions, tools, temperature, text, ...
  Json echoed = Json::object();
  PathNames paths = {};
  std::vector<std::string> ignored = {};  // fields and tools without an effect
};

/// Reads the body. Throws ApiError; what would need a memory of earlier responses is refused.
ResponsesCall read_responses(const Json& json, const llm::SamplingOptions& defaults);

}  // namespace tensora::serve

#pragma once

#include <string>
#include <vector>

#include "tensora/serve/dialect.h"

namespace tensora::serve {

/// A request for messages, as Anthropic's clients write it.
struct AnthropicCall {
  AnswerRequest request = {};
  PathNames paths = {};
  std::vector<std::string> ignored = {};  // fields and tools without an effect
};

/// Reads the body. `counts`: it is for counting tokens, and needs no max_tokens. Throws ApiError.
AnthropicCall read_anthropic(const Json& json, const llm::SamplingOptions& defaults, bool counts);

}  // namespace tensora::serve

#pragma once

#include <string>
#include <vector>

#include "tensora/serve/json_fields.h"
#include "tensora/serve/service.h"

namespace tensora::serve {

/// Which values of temperature, penalties and biases are taken.
enum class SamplingRanges : uint8_t {
  openai,  // temperature 0 to 2, penalties -2 to 2, biases -100 to 100
  engine,  // whatever the engine can compute with
};

/// Reads every field about sampling, under the names of OpenAI, vLLM and llama.cpp, and the fields
/// about the end of an answer: stop, stop_token_ids, ignore_eos, min_tokens. What is absent stays
/// as it is. Not read, because each dialect has its own: the number of tokens, logprobs, schemas.
/// Throws ApiError.
void read_sampling(Fields& body, llm::Request& request,
                   SamplingRanges ranges = SamplingRanges::openai);

/// A number of tokens from `least` on; whatever exceeds the context is cut by the engine.
std::optional<int64_t> read_token_count(Fields& body, const std::string& name, int64_t least);

/// A list of token ids, which must be below the size of a vocabulary.
std::vector<int32_t> read_tokens(const Json& list, const std::string& path, int64_t vocabulary);

/// For the header x-tensora-ignored: fields that nobody has read; empty: none.
Headers ignored_header(const std::vector<std::string>& names);

}  // namespace tensora::serve

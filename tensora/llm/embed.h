#pragma once

#include <span>
#include <vector>

#include "tensora/llm/sequence_session.h"

namespace tensora::llm {

enum class Pooling : uint8_t { mean, last, first };

struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = true;  // to length 1
};

/// The embedding of a text: the model's final hidden states, pooled over its tokens. The session
/// must have room for the tokens; what it holds is replaced.
std::vector<float> embed(SequenceSession& session, std::span<const int32_t> tokens,
                         const EmbedOptions& options = {});

}  // namespace tensora::llm

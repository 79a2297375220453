#pragma once

#include <cstdint>

namespace tensora::llm {

/// How the op sample_tokens chooses one token.
struct TokenChoice {
  double temperature = 0, top_p = 1, min_p = 0;
  int64_t top_k = 1, seed = 0, draw = 0;
};

}  // namespace tensora::llm

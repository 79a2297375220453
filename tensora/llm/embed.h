#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tensora/llm/model.h"

namespace tensora::llm {

enum class Pooling : uint8_t { mean, last, first };

struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = true;  // to length 1
  int64_t context = 2048;
  int64_t batch = 512;
};

/// A vector for a text: the model's hidden states, pooled over its tokens.
std::vector<float> embed(const std::shared_ptr<const Model>& model, std::span<const int32_t> tokens,
                         const EmbedOptions& options = {});

}  // namespace tensora::llm

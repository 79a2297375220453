#pragma once

#include <functional>
#include <memory>
#include <span>

#include "tensora/llm/model.h"

namespace tensora::llm {

struct PerplexityOptions {
  int64_t context = 512;  // tokens that are read together
  /// How far the next part begins behind this one; 0: `context`, and of each part the second half
  /// counts, as llama-perplexity does. Otherwise the tokens that no part before had count.
  int64_t stride = 0;
  int64_t batch = 512;
  std::optional<DType> cache_dtype = {};
  std::optional<int32_t> bos = {};  // replaces the first token of each part
  /// Called with the parts that are done, all parts, and the perplexity so far.
  std::function<void(int64_t done, int64_t total, double perplexity)> progress = nullptr;
};

struct PerplexityResult {
  double perplexity = 0;
  double error = 0;  // the standard error of that
  double bits_per_token = 0;
  int64_t tokens = 0;  // that counted
};

/// How well a model expects a text: the exponential of the mean surprise per token.
PerplexityResult perplexity(const std::shared_ptr<const Model>& model,
                            std::span<const int32_t> tokens, const PerplexityOptions& options);

}  // namespace tensora::llm

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tensora/core/tensor.h"

namespace tensora::models {

struct GenerateOptions {
  int64_t max_new_tokens = 64;
  double temperature = 1;             // 0: always the likeliest token
  int64_t top_k = 0;                  // only the k likeliest tokens; 0: all
  double top_p = 1;                   // only the likeliest tokens whose probabilities sum to this
  std::optional<uint64_t> seed = {};  // otherwise the thread's generator continues
  /// A sequence ends with one of these; the others of its batch go on, and it is filled up with the
  /// first of them. The host then reads every token.
  std::vector<int64_t> stop_tokens = {};
  /// Sees the tokens (B) of each step; false ends the text.
  std::function<bool(const Tensor& tokens)> on_tokens = {};
};

/// A token (B, int64) for each row of `logits` (B V), drawn as the options say.
Tensor sample(const Tensor& logits, const GenerateOptions& options);

/// Continues `prompt` (B T, integers): `next` gets the tokens that are new since its last call
/// (B T, then B 1) and returns the logits (B V) of what follows. Returns prompt and continuation.
Tensor generate(const Tensor& prompt, const std::function<Tensor(const Tensor& tokens)>& next,
                const GenerateOptions& options = {});

}  // namespace tensora::models

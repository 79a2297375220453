#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tensora/core/tensor.h"

namespace tensora::train {

/// A text in tokens, of which windows are taken to learn from.
class TokenWindows {
 public:
  /// Throws if the text is shorter than one window: `context` tokens and the one after them.
  TokenWindows(std::vector<int32_t> tokens, int64_t context);

  struct Pair {
    Tensor inputs, targets;  // B T, int64: targets are the tokens after the inputs
  };
  /// Windows from random places, which the key alone determines.
  Pair random(uint64_t key, int64_t batch) const;
  /// Batch number `index` of `count` that cover the text evenly.
  Pair even(int64_t index, int64_t count, int64_t batch) const;

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  Pair take(const std::vector<int64_t>& places) const;

  std::vector<int32_t> tokens_;
  int64_t context_;
};

/// A number that the parts of a key determine, as good as random.
uint64_t hash_key(uint64_t seed, uint64_t first, uint64_t second = 0);

}  // namespace tensora::train

#pragma once

#include <optional>

#include "tensora/core/tensor.h"

namespace tensora::nn {

struct LinearCrossEntropyOptions {
  int64_t ignore_index = -100;
  /// How many bytes of scores may be in memory at a time.
  int64_t chunk_bytes = int64_t{512} << 20;
};

/// The mean of cross_entropy(linear(input, weight), target), the last step of a language model.
/// input: … D, weight: V D, target: the input's shape without D; the result is float32 for 16-bit
/// inputs too. Where all scores together would
/// exceed `chunk_bytes`, they are computed piece by piece, and gradients with them: then a gradient
/// of the gradient does not exist.
Tensor linear_cross_entropy(const Tensor& input, const Tensor& weight, const Tensor& target,
                            const LinearCrossEntropyOptions& options = {});

}  // namespace tensora::nn

#pragma once

#include <span>

#include "tensora/core/tensor.h"

namespace tensora::llm {

/// A matrix [rows, K] in the dtype of its file, or as it was quantized when it was loaded.
struct Weight {
  Tensor data;
  Tensor scale = {};  // float32 [rows], with int8 and float8_e4m3fn data only

  bool defined() const { return data.defined(); }
  int64_t bytes() const;
  Weight to(Device device) const;
  /// A view of some of the rows.
  Weight rows(int64_t first, int64_t count) const;
  /// The numbers in float32, for tests and conversions.
  Tensor dequantized() const;
};

/// Moves matrices that the same activations are multiplied by to one piece of memory, one below the
/// other, so that a GPU can multiply by all of them in one product. Each becomes a view of its own
/// rows. Leaves weights on the CPU, which may be parts of a mapped file, and those whose dtypes or
/// widths differ.
void place_together(std::span<Weight* const> weights);

}  // namespace tensora::llm

#pragma once

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

}  // namespace tensora::llm

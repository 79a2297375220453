#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

struct QuantEmbeddingOptions {
  Tensor scale = {};       // float32 [rows], for int8 and float8_e4m3fn
  double factor = 1;       // of all numbers
  DType dtype = kFloat32;  // of the result
};

/// The rows of a weight, V D and of any dtype that quant_linear takes, at `indices` (int64, of any
/// shape), times `factor`. No gradient.
Tensor quant_embedding(const Tensor& indices, const Tensor& weight,
                       const QuantEmbeddingOptions& options = {});

}  // namespace tensora

#pragma once

#include <span>
#include <vector>

#include "tensora/core/tensor.h"

namespace tensora {

struct QuantLinearOptions {
  /// One entry per weight: float32 [rows] for int8 and float8_e4m3fn, undefined for all others. May
  /// be empty where no weight needs one.
  std::vector<Tensor> scales = {};
  Tensor bias = {};                 // one number per column of the result, added
  Tensor residual = {};             // of the result's shape, added
  std::optional<DType> dtype = {};  // of the result; by default that of x
  /// float32 [K]: x, which must be float32 then, is replaced by x / rms(x) * norm first, as by
  /// rms_norm. Kernels may round that to 16 bits.
  Tensor norm = {};
  double eps = 1e-5;  // of the norm
};

/// x Wᵀ for one to three weights of one width, their results side by side. x: … K, of float32,
/// float16 or bfloat16; weights: N K, each of a quantized dtype, of a floating one, or of int8 or
/// float8_e4m3fn with scales; the result: … ΣN. Sums are float32. Kernels may round x to 8 bits in
/// blocks of 32 numbers or more before they multiply it by a quantized weight. No gradient.
Tensor quant_linear(const Tensor& x, std::span<const Tensor> weights,
                    const QuantLinearOptions& options = {});

}  // namespace tensora

#pragma once

// Quantized weights for tests on the GPU, and their products by definition.

#include <cmath>

#include "tensora/ops/quant/quant_linear.h"
#include "tensora/ops/quant/quantize.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {

inline const DType kBlockDTypes[] = {kQ4_0, kQ4_1, kQ5_0, kQ5_1,   kQ8_0,   kQ2_K,  kQ3_K,
                                     kQ4_K, kQ5_K, kQ6_K, kIQ4_NL, kIQ4_XS, kMXFP4, kNF4};

/// What float32's order of sums leaves of exact products. Batches round the largest numbers of Q6_K
/// and IQ4_XS to float16.
inline double share_of(DType dtype) { return dtype == kQ6_K || dtype == kIQ4_XS ? 1e-3 : 2e-4; }

/// A weight on the CPU: quantized, of a floating dtype, or of int8 or float8 with scales.
struct Weight {
  Tensor data, scale;

  Tensor wide() const {
    const Tensor numbers = data.is_quantized() ? dequantize(data) : data.to(kFloat32);
    return scale.defined() ? numbers * scale.unsqueeze(1) : numbers;
  }
  Tensor scale_on_gpu() const { return scale.defined() ? scale.to(kCuda) : scale; }
};

inline Weight make_weight(int64_t rows, int64_t k, DType dtype) {
  const Tensor values = randn({rows, k});
  if (is_quantized(dtype)) return {quantize(values, dtype), {}};
  if (dtype == kInt8) {
    const Tensor codes = (values * 40).clamp(-127, 127).round().to(kInt8);
    return {codes, sample({rows}, kFloat32, 0.01, 0.03)};
  }
  if (dtype == kFloat8E4M3) return {values.to(dtype), sample({rows}, kFloat32, 0.5, 1.5)};
  return {values.to(dtype), {}};
}

inline Tensor product(const Tensor& x, const Weight& weight) {
  return matmul(x.to(kFloat32), weight.wide().transpose(0, 1));
}

inline Tensor linear_on_gpu(const Tensor& x, const Weight& weight, DType out = kFloat32) {
  const Tensor weights[] = {weight.data.to(kCuda)};
  QuantLinearOptions options{.dtype = out};
  if (weight.scale.defined()) options.scales = {weight.scale_on_gpu()};
  return quant_linear(x.to(kCuda), weights, options);
}

inline std::vector<DType> all_weights() {
  std::vector<DType> all(std::begin(kBlockDTypes), std::end(kBlockDTypes));
  for (DType dtype : {kInt8, kFloat8E4M3, kFloat16, kBFloat16, kFloat32}) all.push_back(dtype);
  return all;
}
inline DType activations_for(DType weight) {
  return weight == kFloat16 ? kFloat16 : weight == kFloat32 ? kFloat32 : kBFloat16;
}

}  // namespace tensora::test

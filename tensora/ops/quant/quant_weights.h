#pragma once

// Internal header: what the weights of products with activations may be, for the rules and the
// definitions of the ops that take them.

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/norm/layer_norm.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/quant/quantize.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

inline constexpr DTypeSet kActivationDTypes =
    set_of(kFloat32) | set_of(kFloat16) | set_of(kBFloat16);
/// Their rows have a factor each, which is an input of its own.
inline constexpr DTypeSet kScaledDTypes = set_of(kInt8) | set_of(kFloat8E4M3);
inline constexpr DTypeSet kWeightDTypes =
    kActivationDTypes | kScaledDTypes |
    dtypes_where([](const DTypeInfo& info) { return info.category == Category::quantized; });

/// Throws unless input `at` is a matrix that ops may multiply by, with a scale exactly where its
/// dtype needs one.
inline void check_weight(const Infer& infer, size_t at, size_t scale_at, std::string_view what) {
  const Tensor& weight = infer[at];
  infer.check(contains(kWeightDTypes, weight.dtype()), what,
              " must be quantized, float32, float16, bfloat16, int8 or float8_e4m3fn, got ",
              weight.dtype());
  infer.check(weight.dim() == 2, what, " must be a matrix, got shape ", weight.sizes());
  infer.check(weight.is_contiguous(), what, " must be contiguous");
  const bool scaled = contains(kScaledDTypes, weight.dtype());
  infer.check(scaled == infer.has(scale_at), what, " of dtype ", weight.dtype(),
              scaled ? " needs a scale for each row" : " has its scales in itself; got others");
  if (!scaled) return;
  const Tensor& scale = infer[scale_at];
  infer.check(scale.dtype() == kFloat32 && scale.sizes() == Shape{weight.size(0)}, "the scales of ",
              what, " must be float32 of shape [", weight.size(0), "], got ", scale.dtype(), " ",
              scale.sizes());
  infer.check(scale.is_contiguous(), "the scales of ", what, " must be contiguous");
}

/// The same for a product with input 0, the activations.
inline void check_factor(const Infer& infer, size_t at, size_t scale_at, std::string_view what) {
  check_weight(infer, at, scale_at, what);
  infer.check(infer[at].size(1) == infer[0].size(-1), what, " of shape ", infer[at].sizes(),
              " does not fit activations of shape ", infer[0].sizes());
}

inline void check_activations(const Infer& infer) {
  const Tensor& x = infer[0];
  infer.check(contains(kActivationDTypes, x.dtype()),
              "x must be float32, float16 or bfloat16, got ", x.dtype());
  infer.check(x.dim() >= 1, "x must have at least 1 dimension");
  infer.check(x.is_contiguous(), "x must be contiguous");
}

/// Throws unless input `at`, if there is one, is a norm's weight for input 0.
inline void check_norm(const Infer& infer, size_t at) {
  if (!infer.has(at)) return;
  const Shape sizes{infer[0].size(-1)};
  infer.check(infer[0].dtype() == kFloat32, "with a norm x must be float32, got ",
              infer[0].dtype());
  infer.check(infer[at].dtype() == kFloat32 && infer[at].sizes() == sizes,
              "norm must be float32 of shape ", sizes, ", got ", infer[at].dtype(), " ",
              infer[at].sizes());
  infer.check(infer[at].is_contiguous(), "norm must be contiguous");
}

/// The dtype of a result, by default that of the activations.
inline DType result_dtype(const Infer& infer, std::optional<DType> dtype) {
  const DType result = dtype.value_or(infer[0].dtype());
  infer.check(contains(kActivationDTypes, result),
              "the result can be float32, float16 or bfloat16, not ", result);
  return result;
}

/// A weight's numbers in float32.
inline Tensor widened(const Tensor& weight, const Tensor& scale) {
  const Tensor wide = weight.is_quantized() ? dequantize(weight) : to(weight, kFloat32);
  return scale.defined() ? wide * unsqueeze(scale, 1) : wide;
}

inline Tensor optional_tensor(Args in, size_t i) { return i < in.size() ? *in[i] : Tensor(); }
/// Input 0 in float32, normalised if there is a norm's weight.
inline Tensor normalised_input(Args in, size_t norm, double eps) {
  const Tensor x = to(*in[0], kFloat32), weight = optional_tensor(in, norm);
  return weight.defined() ? rms_norm(x, {x.size(-1)}, weight, eps) : x;
}
/// Undefined if `tensor` is.
inline Tensor contiguous_or_none(const Tensor& tensor) {
  return tensor.defined() ? contiguous(tensor) : tensor;
}

}  // namespace tensora

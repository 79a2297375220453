#pragma once

// Internal header: the op behind quant_gated.

#include "tensora/ops/matrix/linear_activation.h"

namespace tensora {

/// (x, gate, up, gate_scale?, up_scale?, norm?) -> … N. All inputs are contiguous.
struct QuantGatedAttrs {
  static constexpr size_t kNorm = 5;
  Activation activation = Activation::silu;
  std::optional<DType> dtype = {};
  double eps = 1e-5;  // of the norm
};
extern OpDef<QuantGatedAttrs> quant_gated_op;

}  // namespace tensora

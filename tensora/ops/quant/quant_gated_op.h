#pragma once

// Internal header: the op behind quant_gated.

#include "tensora/ops/matrix/linear_activation.h"

namespace tensora {

/// (x, gate, up, gate_scale?, up_scale?) -> … N. All inputs are contiguous.
struct QuantGatedAttrs {
  Activation activation = Activation::silu;
  std::optional<DType> dtype = {};
};
extern OpDef<QuantGatedAttrs> quant_gated_op;

}  // namespace tensora

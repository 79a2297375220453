#pragma once

// Internal header: the op behind quant_experts.

#include "tensora/ops/matrix/linear_activation.h"

namespace tensora {

/// (x, chosen, weights, gate, up, down, gate_scale?, up_scale?, down_scale?, residual?) -> T M. All
/// inputs are contiguous.
struct QuantExpertsAttrs {
  static constexpr size_t kChosen = 1, kWeights = 2, kGate = 3, kUp = 4, kDown = 5, kGateScale = 6,
                          kUpScale = 7, kDownScale = 8, kResidual = 9;
  int64_t experts = 1;
  Activation activation = Activation::silu;
  std::optional<DType> dtype = {};
};
extern OpDef<QuantExpertsAttrs> quant_experts_op;

}  // namespace tensora

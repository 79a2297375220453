#pragma once

// Internal header: the op behind quant_linear.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (x, weight, weight1?, weight2?, scale?, scale1?, scale2?, bias?, residual?) -> … ΣN. All inputs
/// are contiguous.
struct QuantLinearAttrs {
  static constexpr size_t kWeight = 1, kScale = 4, kBias = 7, kResidual = 8, kMostWeights = 3;
  std::optional<DType> dtype = {};
};
extern OpDef<QuantLinearAttrs> quant_linear_op;

}  // namespace tensora

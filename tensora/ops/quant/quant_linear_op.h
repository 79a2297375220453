#pragma once

// Internal header: the op behind quant_linear.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (x, weight, weight1?, weight2?, scale?, scale1?, scale2?, bias?, residual?, norm?) -> … ΣN. All
/// inputs are contiguous.
struct QuantLinearAttrs {
  static constexpr size_t kWeight = 1, kScale = 4, kBias = 7, kResidual = 8, kNorm = 9,
                          kMostWeights = 3;
  std::optional<DType> dtype = {};
  double eps = 1e-5;  // of the norm
};
extern OpDef<QuantLinearAttrs> quant_linear_op;

}  // namespace tensora

#pragma once

// Internal header: the op behind residual_rms_norm.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (input, weight, residual?) -> the result, and the float32 sum if there is a residual. All inputs
/// are contiguous.
struct ResidualNormAttrs {
  double eps = 1e-6;
  std::optional<DType> dtype = {};
  bool unit_offset = false;
};
extern OpDef<ResidualNormAttrs> residual_norm_op;

}  // namespace tensora

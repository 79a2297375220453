#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct ReduceAttrs;
extern OpDef<ReduceAttrs> any_op, all_op;

/// Whether any (every) element over `dim` (all dims if empty) is not zero; NaN is not zero. The
/// result is bool, or uint8 for uint8.
Tensor any(const Tensor& self, const Dims& dim = {}, bool keepdim = false);
Tensor all(const Tensor& self, const Dims& dim = {}, bool keepdim = false);

}  // namespace tensora

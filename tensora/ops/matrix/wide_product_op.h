#pragma once

// Internal header: sums of products that are not rounded on the way.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (sum [m, n] float32, a [m, k], b [k, n] of one 16-bit dtype) -> sum + a @ b. Run in place, a sum
/// of many products is read and written once for each, and rounded to 16 bits never.
extern OpDef<NoAttrs> add_wide_product_op;

}  // namespace tensora

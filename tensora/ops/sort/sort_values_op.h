#pragma once

// Internal header: sorting where nobody asks where the elements were.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// The elements of a contiguous vector in ascending order, as `sort` gives them.
extern OpDef<NoAttrs> sort_values_op;

}  // namespace tensora

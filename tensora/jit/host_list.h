#pragma once

// Internal header: many small calls of one program.

#include "tensora/jit/host_plan.h"
#include "tensora/jit/tile_kernel.h"

namespace tensora::jit {

/// Runs calls that do not depend on one another, if the program is one chain and each of their
/// arrays is one run of elements, or one element. False if not.
bool run_list(const HostPlan& plan, std::span<const TileCall> calls);

}  // namespace tensora::jit

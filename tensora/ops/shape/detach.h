#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// An alias outside the graph. Called through Tensor::detach(), which keeps it from being tracked
/// as a differentiable view.
extern OpDef<NoAttrs> detach_op;

}  // namespace tensora

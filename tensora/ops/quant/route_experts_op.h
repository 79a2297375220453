#pragma once

// Internal header: the op behind route_experts.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (x, router, router_scale?) -> (weights, chosen). All inputs are contiguous.
struct RouteExpertsAttrs {
  int64_t used = 1;
  bool normalize = true;
  double scale = 1;
};
extern OpDef<RouteExpertsAttrs> route_experts_op;

}  // namespace tensora

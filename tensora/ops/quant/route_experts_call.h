#pragma once

// Internal header: the CUDA kernels of route_experts.

#include <cstdint>
#include <string_view>

#include "tensora/core/dtype.h"

namespace tensora::cuda {

struct RouteCall {
  const char* x = nullptr;
  const char* router = nullptr;
  const float* router_scale = nullptr;
  float* logits = nullptr;  // [tokens][experts], where two kernels share the work
  float* weights = nullptr;
  long long* chosen = nullptr;
  int64_t row_bytes = 0;  // of the router
  int tokens = 0, k = 0, experts = 0, used = 0;
  float factor = 1;
  bool normalize = true;
  DType x_dtype = DType::bfloat16;
};

/// Whether one kernel does it all. Otherwise `logits` must be there.
bool routes_at_once(DType router, const RouteCall& call);
void route_tokens(std::string_view op, int device, DType router, const RouteCall& call);

}  // namespace tensora::cuda

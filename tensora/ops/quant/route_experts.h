#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

struct RouteExpertsOptions {
  Tensor router_scale = {};  // float32 [E], for a router of int8 or float8_e4m3fn
  bool normalize = true;     // the chosen experts' weights of a token sum to 1
  double scale = 1;          // of the weights
};

/// The router of a mixture of experts: the `used` experts with the largest probability
/// softmax(x routerᵀ), largest first. x: T K; router: E K, of any dtype that quant_linear takes.
/// Returns (weights: float32 [T, used], chosen: int64 [T, used]). No gradient.
std::tuple<Tensor, Tensor> route_experts(const Tensor& x, const Tensor& router, int64_t used,
                                         const RouteExpertsOptions& options = {});

}  // namespace tensora

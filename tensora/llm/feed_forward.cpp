#include "tensora/llm/feed_forward.h"

#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/quant/quant_experts.h"
#include "tensora/ops/quant/route_experts.h"

namespace tensora::llm {

namespace {

Tensor activated(const Tensor& x, Activation activation) {
  return activation == Activation::silu ? silu(x) : gelu(x, "tanh");
}

}  // namespace

Tensor FeedForward::gated(const Projection::Input& x, const Batch& batch, DType dtype) const {
  if (batch.adapters.empty() && !gate.has_bias() && !up.has_bias()) [[likely]] {
    const Weight &g = gate.weight(0), &u = up.weight(0);
    return quant_gated(x.x, g.data, u.data,
                       {.activation = activation,
                        .gate_scale = g.scale,
                        .up_scale = u.scale,
                        .dtype = dtype,
                        .norm = x.norm,
                        .eps = x.eps});
  }
  const Projection::Result result{.dtype = dtype};
  return activated(gate(x, batch, result), activation) * up(x, batch, result);
}

Tensor FeedForward::operator()(const Projection::Input& x, const Batch& batch, DType dtype,
                               const Tensor& residual) const {
  return down({gated(x, batch, dtype)}, batch, {.residual = residual, .dtype = kFloat32});
}

Tensor Experts::operator()(const Tensor& x, const Tensor& residual) const {
  const auto [weights, chosen] = route_experts(
      x, router.data, used, {.router_scale = router.scale, .normalize = normalize, .scale = scale});
  return quant_experts(x, chosen, weights, gate.data, up.data, down.data, count,
                       {.activation = activation,
                        .gate_scale = gate.scale,
                        .up_scale = up.scale,
                        .down_scale = down.scale,
                        .residual = residual,
                        .dtype = kFloat32});
}

}  // namespace tensora::llm

#include "tensora/llm/feed_forward.h"

#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::llm {

namespace {

Tensor activated(const Tensor& x, Activation activation) {
  return activation == Activation::silu ? silu(x) : gelu(x, "tanh");
}

Tensor product(const Tensor& x, const Weight& weight) {
  const Tensor weights[] = {weight.data};
  return quant_linear(x, weights, {.scales = {weight.scale}, .dtype = kFloat32});
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
  auto [weights, chosen] = topk(softmax(product(x, router), -1), used);
  if (normalize) weights = weights / weights.sum({-1}, true);
  if (scale != 1) weights = weights * scale;
  const std::vector<int64_t> choices = to_vector<int64_t>(chosen);
  std::vector<std::vector<int64_t>> visits(gate.size());  // to each expert: token · used + place
  for (size_t i = 0; i < choices.size(); ++i)
    visits[static_cast<size_t>(choices[i])].push_back(static_cast<int64_t>(i));
  const Tensor sum = residual.defined()
                         ? residual.clone()
                         : zeros(x.sizes(), {.dtype = kFloat32, .device = x.device()});
  for (size_t e = 0; e < visits.size(); ++e) {
    if (visits[e].empty()) continue;
    const Tensor visit = tensor(visits[e], {.dtype = kInt64}).to(x.device());
    const Tensor rows = floor_divide(visit, used);
    const Tensor inner = quant_gated(
        x.index_select(0, rows), gate[e].data, up[e].data,
        {.activation = activation, .gate_scale = gate[e].scale, .up_scale = up[e].scale});
    const Tensor share = weights.reshape({-1}).index_select(0, visit).unsqueeze(1);
    sum.index_add_(0, rows, product(inner, down[e]) * share);
  }
  return sum;
}

}  // namespace tensora::llm

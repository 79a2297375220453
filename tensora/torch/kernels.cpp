#include "tensora/torch/kernels.h"

#include <ATen/ATen.h>

#include "tensora/torch/bridge.h"

namespace tensora::torch {
namespace {

// From more rows on, converting an int8 matrix and multiplying by that takes less time.
constexpr int64_t kInt8Rows = 24;

at::Tensor chosen_rows(const Matrix& matrix, const at::Tensor& indices, at::ScalarType dtype) {
  if (!matrix.levels.defined()) return dense_parts(matrix, dtype)[0].index_select(0, indices);
  const at::Tensor scales = matrix.scales.index_select(0, indices).unsqueeze(1);
  return matrix.levels.index_select(0, indices).to(dtype).mul_(scales);
}

}  // namespace

at::Tensor Kernels::embedding(const Step& step, const Matrix& matrix) const {
  at::Tensor rows = chosen_rows(matrix, to_torch(step.batch().tokens), dtype_).to(residual_dtype());
  return config_.embedding_scale == 1 ? rows : rows.mul_(config_.embedding_scale);
}

at::Tensor Kernels::normalised_now(const at::Tensor& x, const Norm& norm,
                                   at::ScalarType result) const {
  const int64_t size = norm.wide.size(0);
  if (norm.narrow.defined() && x.scalar_type() == norm.narrow.scalar_type())
    return at::rms_norm(x, {size}, norm.narrow, config_.norm_eps).to(result);
  return at::rms_norm(x.to(at::kFloat), {size}, norm.wide, config_.norm_eps).to(result);
}

at::Tensor Kernels::ready(const Input& x) const {
  return x.norm ? normalised_now(x.x, *x.norm, dtype_) : x.x.to(dtype_);
}

Input Kernels::normalised(const at::Tensor& x, const Norm& norm, bool) const {
  return {normalised_now(x, norm, dtype_)};
}

at::Tensor Kernels::branch_norm(const at::Tensor& x, const Norm& norm) const {
  return normalised_now(x, norm, residual_dtype());
}

at::Tensor Kernels::product(const at::Tensor& x, const Matrix& matrix) const {
  std::optional<at::Tensor> bias;
  if (matrix.bias.defined()) bias = matrix.bias;
  if (matrix.levels.defined() && x.size(0) <= kInt8Rows) {
    at::Tensor all = at::_weight_int8pack_mm(x.contiguous(), matrix.levels, matrix.scales);
    return bias ? all.add_(*bias) : all;
  }
  const auto parts = dense_parts(matrix, dtype_);
  if (parts.size() == 1) return at::linear(x, parts[0], bias);
  std::vector<at::Tensor> columns;
  for (const at::Tensor& part : parts) columns.push_back(at::linear(x, part));
  at::Tensor all = at::cat(columns, 1);
  return bias ? all.add_(*bias) : all;
}

at::Tensor Kernels::linear(const Input& x, const Matrix& matrix, const at::Tensor& residual) const {
  const at::Tensor h = ready(x);
  if (!residual.defined()) return product(h, matrix);
  // One kernel multiplies and adds.
  if (!matrix.bias.defined() && matrix.dense.size() == 1 && residual.scalar_type() == dtype_)
    return at::addmm(residual, h, matrix.dense[0].t());
  return residual + product(h, matrix);
}

at::Tensor Kernels::combined(at::Tensor gate, const at::Tensor& up, Activation activation) const {
  gate = activation == Activation::silu ? at::silu_(gate) : at::gelu_(gate, "tanh");
  return gate.mul_(up);
}

at::Tensor Kernels::gated(const Input& x, const GatedLayer& layer) const {
  const at::Tensor h = ready(x);
  const Matrix& both = layer.gate_up;
  const auto parts = both.levels.defined() ? std::vector<at::Tensor>() : dense_parts(both, dtype_);
  if (parts.size() == 2 && !layer.gate_up.bias.defined())
    return combined(at::linear(h, parts[0]), at::linear(h, parts[1]), layer.activation);
  const auto halves = product(h, layer.gate_up).chunk(2, 1);
  // The halves' rows do not follow one another, and what follows is faster on rows that do.
  const at::Tensor gate =
      layer.activation == Activation::silu ? at::silu(halves[0]) : at::gelu(halves[0], "tanh");
  return gate * halves[1];
}

// Few tokens gather the matrices of their experts, many visit each expert once.
at::Tensor Kernels::experts(const at::Tensor& x, const ExpertsLayer& layer,
                            const at::Tensor& residual) const {
  const llm::Experts& how = layer.ours;
  const auto stack = [&](const Matrix& matrix) {
    const at::Tensor flat = dense_parts(matrix, dtype_)[0];
    return flat.view({how.count, -1, flat.size(1)});
  };
  const auto activate = [&](const at::Tensor& gate) {
    return how.activation == Activation::silu ? at::silu(gate) : at::gelu(gate, "tanh");
  };
  const at::Tensor h = x.to(dtype_), gate = stack(layer.gate), up = stack(layer.up),
                   down = stack(layer.down);
  const at::Tensor shares = at::softmax(product(h, layer.router).to(at::kFloat), -1);
  auto [weights, chosen] = shares.topk(how.used, -1);
  if (how.normalize) weights = weights / weights.sum(-1, true);
  weights = weights * how.scale;
  const int64_t tokens = h.size(0);
  at::Tensor sum;
  if (tokens * how.used <= how.count || tokens == 1) {
    const at::Tensor flat = chosen.flatten();
    const at::Tensor each = h.repeat_interleave(how.used, 0).unsqueeze(2);  // T·used, K, 1
    const at::Tensor middle =
        activate(gate.index_select(0, flat).bmm(each)).mul_(up.index_select(0, flat).bmm(each));
    const at::Tensor out = down.index_select(0, flat).bmm(middle).view({tokens, how.used, -1});
    sum = out.to(at::kFloat).mul_(weights.unsqueeze(2)).sum(1);
  } else {
    sum = at::zeros({tokens, down.size(1)}, h.options().dtype(at::kFloat));
    for (int64_t e = 0; e < how.count; ++e) {
      const at::Tensor places = (chosen == e).nonzero();  // token, place
      if (places.size(0) == 0) continue;
      const at::Tensor rows = places.select(1, 0), in = h.index_select(0, rows);
      const at::Tensor middle = activate(at::linear(in, gate[e])).mul_(at::linear(in, up[e]));
      const at::Tensor share = weights.index({rows, places.select(1, 1)}).unsqueeze(1);
      sum.index_add_(0, rows, at::linear(middle, down[e]).to(at::kFloat) * share);
    }
  }
  sum = sum.to(residual_dtype());
  return residual.defined() ? residual + sum : sum;
}

at::Tensor Kernels::rotate(const at::Tensor& x, const RopeTable& angles) const {
  const int64_t turned = config_.rotary_dim, size = config_.head_dim;
  const at::Tensor part = turned == size ? x : x.narrow(2, 0, turned);
  const at::Tensor swapped = config_.rope_in_halves
                                 ? at::roll(part, turned / 2, -1)
                                 : part.unflatten(2, {turned / 2, 2}).flip(-1).flatten(2);
  const at::Tensor result = at::addcmul(part * angles.cos, swapped, angles.sin);
  return turned == size ? result : at::cat({result, x.narrow(2, turned, size - turned)}, 2);
}

at::Tensor Kernels::rotated_and_stored(Step& step, const AttentionLayer& layer,
                                       const at::Tensor& qkv) const {
  const int64_t heads = config_.heads, kv_heads = config_.kv_heads;
  const at::Tensor all = qkv.view({qkv.size(0), heads + 2 * kv_heads, config_.head_dim});
  at::Tensor both = all.narrow(1, 0, heads + kv_heads);
  if (layer.q_norm.wide.defined())
    both =
        at::cat({normalised_now(all.narrow(1, 0, heads), layer.q_norm, qkv.scalar_type()),
                 normalised_now(all.narrow(1, heads, kv_heads), layer.k_norm, qkv.scalar_type())},
                1);
  const bool own = layer.is_local && tables_.torch_local.cos.defined();
  both = rotate(both, step.angles(own ? tables_.torch_local : tables_.torch, own));
  step.store(layer.number, both.narrow(1, heads, kv_heads),
             all.narrow(1, heads + kv_heads, kv_heads));
  return both.narrow(1, 0, heads);
}

at::Tensor Kernels::attention(Step& step, const AttentionLayer& layer,
                              const at::Tensor& qkv) const {
  const at::Tensor queries = rotated_and_stored(step, layer, qkv);
  return step.attend(layer.number, queries, window_of(layer)).reshape({qkv.size(0), -1});
}

at::Tensor Kernels::logits(const Input& x, const Matrix& head) const {
  return product(ready(x), head).to(at::kFloat);
}

}  // namespace tensora::torch

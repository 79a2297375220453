#include "tensora/nn/mixture_of_experts.h"

#include <algorithm>
#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/ops.h"

namespace tensora::nn {

MixtureOfExperts::MixtureOfExperts(int64_t given_dim, int64_t given_hidden,
                                   MixtureOfExpertsOptions given)
    : dim(given_dim),
      hidden(given_hidden),
      options(given),
      gate(register_module("gate", Linear(dim, options.num_experts, {.bias = false}))) {
  constexpr auto layer = "MixtureOfExperts";
  check(dim > 0 && hidden > 0, layer, ": dim and hidden must be positive, got ", dim, " and ",
        hidden);
  check(options.top_k > 0 && options.top_k <= options.num_experts, layer,
        ": top_k must be between 1 and num_experts=", options.num_experts, ", got ", options.top_k);
  check(!options.capacity_factor || *options.capacity_factor > 0, layer,
        ": capacity_factor must be positive, got ", options.capacity_factor.value_or(0));
  const TensorOptions made = FactoryScope::current();
  gate_up_proj =
      register_parameter("gate_up_proj", empty({options.num_experts, 2 * hidden, dim}, made));
  down_proj = register_parameter("down_proj", empty({options.num_experts, dim, hidden}, made));
  if (options.shared_hidden > 0)
    shared_expert = register_module("shared_expert", FeedForwardSwiGLU(dim, options.shared_hidden));
  reset_parameters();
}

void MixtureOfExperts::reset_parameters() {
  const no_grad silent;
  for (const Parameter* weight : {&gate_up_proj, &down_proj}) {
    const double bound = 1 / std::sqrt(static_cast<double>(weight->size(2)));
    weight->uniform_(-bound, bound);
  }
}

// The host knows how many tokens each expert has: products of exactly these rows.
Tensor MixtureOfExperts::by_expert(const Tensor& tokens, const Tensor& experts,
                                   const Tensor& weights) const {
  const Tensor order = experts.flatten().argsort(0, false, true);
  const std::vector<int64_t> counts =
      to_vector<int64_t>(bincount(experts.flatten(), {}, options.num_experts));
  const Tensor rows = floor_divide(order, options.top_k);  // whose each of the sorted choices is
  const Tensor sorted = tokens.index_select(0, rows);
  TensorList results;
  int64_t start = 0;
  for (int64_t e = 0; e < options.num_experts; ++e) {
    const int64_t count = counts[static_cast<size_t>(e)];
    if (count == 0) continue;
    const Tensor inner = swiglu(linear(sorted.narrow(0, start, count), gate_up_proj[e]));
    results.push_back(linear(inner, down_proj[e]));
    start += count;
  }
  const Tensor factors = weights.flatten().index_select(0, order).unsqueeze(1);
  const Tensor outputs = cat(results) * factors.to(results[0].dtype());
  return zeros_like(tokens, {.dtype = outputs.dtype()}).index_add(0, rows, outputs);
}

// Every expert has as many slots for tokens, so that all shapes are known without the choice: one
// product for all experts. A choice beyond an expert's slots goes to a last slot that is ignored.
Tensor MixtureOfExperts::in_slots(const Tensor& tokens, const Tensor& experts,
                                  const Tensor& weights) const {
  const int64_t n = tokens.size(0), choices = n * options.top_k, e = options.num_experts;
  int64_t slots = n;
  if (options.capacity_factor)
    slots = std::min(
        n, static_cast<int64_t>(std::ceil(*options.capacity_factor * static_cast<double>(choices) /
                                          static_cast<double>(e))));
  const Tensor chosen = experts.flatten();
  const Tensor marks = one_hot(chosen, e);                    // choices, experts
  const Tensor place = (marks.cumsum(0) * marks).sum(1) - 1;  // within the expert
  const Tensor kept = place < slots;
  const Tensor slot = where(kept, chosen * slots + place, full_like(place, e * slots));
  const Tensor rows = floor_divide(arange(choices, {.device = tokens.device()}), options.top_k);
  const Tensor given =
      zeros({e * slots + 1, dim}, {.dtype = tokens.dtype(), .device = tokens.device()})
          .index_copy(0, slot, tokens.index_select(0, rows))
          .narrow(0, 0, e * slots)
          .view({e, slots, dim});
  const Tensor inner = swiglu(matmul(given, gate_up_proj.transpose(1, 2)));
  const Tensor outputs = matmul(inner, down_proj.transpose(1, 2)).reshape({e * slots, dim});
  const Tensor factors = where(kept, weights.flatten(), zeros_like(weights.flatten()));
  const Tensor taken = outputs.index_select(0, slot.clamp_max(e * slots - 1));
  return (taken * factors.unsqueeze(1).to(taken.dtype())).view({n, options.top_k, dim}).sum(1);
}

std::tuple<Tensor, Tensor> MixtureOfExperts::forward(const Tensor& input) const {
  check(input.dim() >= 1 && input.size(-1) == dim, "MixtureOfExperts: expected an input with ", dim,
        " features, got shape ", input.sizes());
  const Tensor tokens = input.reshape({-1, dim});
  const Tensor probabilities = softmax(gate(tokens), -1, kFloat32);
  auto [weights, experts] = probabilities.topk(options.top_k, -1);
  if (options.normalize_weights) weights = weights / weights.sum({-1}, true);
  const bool counted = tokens.device().is_cpu() && !options.capacity_factor;
  Tensor result = tokens.size(0) == 0 ? tokens
                  : counted           ? by_expert(tokens, experts, weights)
                                      : in_slots(tokens, experts, weights);
  if (shared_expert) result = result + (*shared_expert)(tokens);
  const Tensor uses = one_hot(experts, options.num_experts).to(kFloat32).sum(Dims{1}).mean(Dims{0});
  const Tensor balance =
      (uses * probabilities.mean(Dims{0})).sum() * static_cast<double>(options.num_experts);
  return {result.reshape(input.sizes()), balance};
}

std::string MixtureOfExperts::extra_repr() const {
  return concat("dim=", dim, ", hidden=", hidden, ", num_experts=", options.num_experts,
                ", top_k=", options.top_k);
}

}  // namespace tensora::nn

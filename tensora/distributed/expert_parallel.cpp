#include "tensora/distributed/expert_parallel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensora/autograd/function.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

using Counts = std::vector<int64_t>;

int64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

/// Sends `sent[r]` rows to rank r and gets `received[r]` rows from it; the gradient goes back.
struct ExchangeRows : Function<ExchangeRows> {
  static Tensor run(const Tensor& rows, const Counts& sent, const Counts& received,
                    ProcessGroup& group) {
    const int64_t width = rows.size(1);
    const Tensor in = rows.contiguous();
    const Tensor out =
        empty({total(received), width}, {.dtype = rows.dtype(), .device = rows.device()});
    Counts in_counts, out_counts;
    for (const int64_t count : sent) in_counts.push_back(count * width);
    for (const int64_t count : received) out_counts.push_back(count * width);
    group.all_to_all(data_of(out), out_counts, data_of(in), in_counts)->wait();
    return out;
  }
  static Tensor forward(Context& context, const Tensor& rows, const Counts& sent,
                        const Counts& received, const std::shared_ptr<ProcessGroup>& group) {
    context.data["sent"] = sent;
    context.data["received"] = received;
    context.data["group"] = group;
    return run(rows, sent, received, *group);
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    const auto group = std::any_cast<std::shared_ptr<ProcessGroup>>(context.data["group"]);
    const no_grad silent;
    return {run(grads[0], std::any_cast<Counts>(context.data["received"]),
                std::any_cast<Counts>(context.data["sent"]), *group),
            {},
            {},
            {}};
  }
};

Tensor run_expert(const Tensor& rows, const Tensor& gate_up, const Tensor& down) {
  return linear(swiglu(linear(rows, gate_up)), down);
}

}  // namespace

ExpertParallel::ExpertParallel(const nn::MixtureOfExperts& whole,
                               std::shared_ptr<ProcessGroup> group)
    : dim(whole.dim),
      options(whole.options),
      gate(register_module("gate", whole.gate)),
      group_(group ? std::move(group) : world()) {
  const int64_t ranks = group_->size();
  check_as<ValueError>(options.num_experts % ranks == 0, "ExpertParallel: ", options.num_experts,
                       " experts cannot be divided among ", ranks, " ranks");
  const int64_t mine = options.num_experts / ranks;
  const auto part = [&](const Tensor& weights) {
    return weights.detach().narrow(0, mine * group_->rank(), mine).clone();
  };
  gate_up_proj = register_parameter("gate_up_proj", part(whole.gate_up_proj));
  down_proj = register_parameter("down_proj", part(whole.down_proj));
  const double share = 1.0 / static_cast<double>(ranks);
  if (ranks > 1)
    for (const nn::Parameter* weights : {&gate_up_proj, &down_proj})
      weights->register_hook([share](const Tensor& grad) { return grad * share; });
  if (whole.shared_expert) shared_expert = register_module("shared_expert", *whole.shared_expert);
}

// Rows are sorted by expert, so those of one rank lie together; the counts go ahead of them.
Tensor ExpertParallel::by_counts(const Tensor& tokens, const Tensor& experts,
                                 const Tensor& weights) const {
  const auto ranks = static_cast<size_t>(group_->size());
  const size_t mine = static_cast<size_t>(options.num_experts) / ranks;
  const Tensor order = experts.flatten().argsort(0, false, true);
  const Tensor counts = bincount(experts.flatten(), {}, options.num_experts).contiguous();
  const Tensor their_counts = empty_like(counts);  // by rank, then by expert of this rank
  group_->all_to_all(data_of(their_counts), data_of(counts), CallMode::blocking)->wait();
  const Counts own = to_vector<int64_t>(counts), theirs = to_vector<int64_t>(their_counts);
  Counts sent(ranks, 0), received(ranks, 0);
  for (size_t i = 0; i < own.size(); ++i) {
    sent[i / mine] += own[i];
    received[i / mine] += theirs[i];
  }
  const Tensor rows = floor_divide(order, options.top_k);
  const Tensor given = ExchangeRows::apply(tokens.index_select(0, rows), sent, received, group_);
  // What came is ordered by rank and then by expert: each expert takes its rows of all ranks.
  TensorList results(theirs.size());
  Counts starts(theirs.size(), 0);
  for (size_t i = 1; i < theirs.size(); ++i) starts[i] = starts[i - 1] + theirs[i - 1];
  for (size_t e = 0; e < mine; ++e) {
    TensorList parts;
    Counts sizes;
    for (size_t r = 0; r < ranks; ++r) {
      const size_t i = r * mine + e;
      parts.push_back(given.narrow(0, starts[i], theirs[i]));
      sizes.push_back(theirs[i]);
    }
    const auto index = static_cast<int64_t>(e);
    const Tensor output = run_expert(cat(parts), gate_up_proj[index], down_proj[index]);
    int64_t at = 0;
    for (size_t r = 0; r < ranks; at += sizes[r++])
      results[r * mine + e] = output.narrow(0, at, sizes[r]);
  }
  const Tensor back = ExchangeRows::apply(cat(results), received, sent, group_);
  const Tensor factors = weights.flatten().index_select(0, order).unsqueeze(1);
  const Tensor outputs = back * factors.to(back.dtype());
  return zeros_like(tokens, {.dtype = outputs.dtype()}).index_add(0, rows, outputs);
}

// A choice beyond an expert's slots goes to a last slot that is ignored.
Tensor ExpertParallel::in_slots(const Tensor& tokens, const Tensor& experts,
                                const Tensor& weights) const {
  const int64_t n = tokens.size(0), choices = n * options.top_k, e = options.num_experts;
  const int64_t ranks = group_->size(), mine = e / ranks;
  const int64_t slots = std::min(
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
          .narrow(0, 0, e * slots);
  const Counts equal(static_cast<size_t>(ranks), mine * slots);
  const Tensor here = ExchangeRows::apply(given, equal, equal, group_)
                          .view({ranks, mine, slots, dim})
                          .transpose(0, 1)
                          .reshape({mine, ranks * slots, dim});
  const Tensor inner = swiglu(matmul(here, gate_up_proj.transpose(1, 2)));
  const Tensor made = matmul(inner, down_proj.transpose(1, 2))
                          .view({mine, ranks, slots, dim})
                          .transpose(0, 1)
                          .reshape({e * slots, dim});
  const Tensor outputs = ExchangeRows::apply(made, equal, equal, group_);
  const Tensor factors = where(kept, weights.flatten(), zeros_like(weights.flatten()));
  const Tensor taken = outputs.index_select(0, slot.clamp_max(e * slots - 1));
  return (taken * factors.unsqueeze(1).to(taken.dtype())).view({n, options.top_k, dim}).sum(1);
}

std::tuple<Tensor, Tensor> ExpertParallel::forward(const Tensor& input) const {
  check(input.dim() >= 1 && input.size(-1) == dim, "ExpertParallel: expected an input with ", dim,
        " features, got shape ", input.sizes());
  const Tensor tokens = input.reshape({-1, dim});
  check(tokens.size(0) > 0, "ExpertParallel: a rank needs at least one token");
  const Tensor probabilities = softmax(gate(tokens), -1, kFloat32);
  auto [weights, experts] = probabilities.topk(options.top_k, -1);
  if (options.normalize_weights) weights = weights / weights.sum({-1}, true);
  Tensor result = options.capacity_factor ? in_slots(tokens, experts, weights)
                                          : by_counts(tokens, experts, weights);
  if (shared_expert) result = result + (*shared_expert)(tokens);
  const Tensor uses = one_hot(experts, options.num_experts).to(kFloat32).sum(Dims{1}).mean(Dims{0});
  const Tensor balance =
      (uses * probabilities.mean(Dims{0})).sum() * static_cast<double>(options.num_experts);
  return {result.reshape(input.sizes()), balance};
}

std::string ExpertParallel::extra_repr() const {
  return concat("dim=", dim, ", num_experts=", options.num_experts, ", top_k=", options.top_k,
                ", ranks=", group_->size());
}

}  // namespace tensora::distributed

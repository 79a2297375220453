#pragma once

#include <memory>
#include <optional>
#include <tuple>

#include "tensora/core/process_group.h"
#include "tensora/nn/mixture_of_experts.h"

namespace tensora::distributed {

/// A mixture of experts whose experts are divided among the ranks of a group: each rank has
/// num_experts / ranks of them and tokens of its own, which travel to their experts and back by
/// all_to_all.
///
/// Without a capacity the ranks exchange exactly the rows that were chosen, whose counts the host
/// waits for. With `capacity_factor` every rank gives each expert at most capacity_factor * tokens
/// * top_k / num_experts rows of its own: shapes are known without the choice, the host never
/// waits, and tokens beyond that skip the expert.
///
/// The router and a shared expert are the same on all ranks, and their gradients are to be averaged
/// over the group. An expert gets the gradients of all ranks' tokens, divided by the number of
/// ranks: nothing is left to do for it, so it must not be given to data_parallel.
class ExpertParallel : public nn::Layer<ExpertParallel> {
 public:
  /// Takes over the router, the shared expert and this rank's experts of a layer that is the same
  /// on all ranks.
  explicit ExpertParallel(const nn::MixtureOfExperts& whole,
                          std::shared_ptr<ProcessGroup> group = nullptr);

  /// As MixtureOfExperts::forward, of this rank's tokens.
  std::tuple<Tensor, Tensor> forward(const Tensor& input /* … dim */) const;
  std::string extra_repr() const override;
  /// The parameters that differ from rank to rank.
  std::vector<Tensor> expert_parameters() const { return {gate_up_proj, down_proj}; }

  int64_t dim;
  nn::MixtureOfExpertsOptions options;  // num_experts counts those of all ranks
  nn::Linear gate;
  nn::Parameter gate_up_proj, down_proj;  // of this rank's experts
  std::optional<nn::FeedForwardSwiGLU> shared_expert;

 private:
  Tensor by_counts(const Tensor& tokens, const Tensor& experts, const Tensor& weights) const;
  Tensor in_slots(const Tensor& tokens, const Tensor& experts, const Tensor& weights) const;

  std::shared_ptr<ProcessGroup> group_;
};

}  // namespace tensora::distributed

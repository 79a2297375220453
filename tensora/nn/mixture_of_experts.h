#pragma once

#include "tensora/nn/feed_forward_swiglu.h"

namespace tensora::nn {

struct MixtureOfExpertsOptions {
  int64_t num_experts = 8;
  int64_t top_k = 2;              // experts per token
  int64_t shared_hidden = 0;      // the hidden size of an expert that sees every token; 0: none
  bool normalize_weights = true;  // the weights of a token's experts sum to 1
  /// Each expert computes at most capacity_factor * tokens * top_k / num_experts rows, and tokens
  /// beyond that skip it. Without a value nothing is skipped; on a GPU each expert then computes as
  /// many rows as there are tokens.
  std::optional<double> capacity_factor = {};
};

/// Many feed-forward networks (SwiGLU) of which each token uses the few that a router chooses, and
/// optionally one that all tokens use. The host never waits for the router's choice on a GPU.
class MixtureOfExperts : public Layer<MixtureOfExperts> {
 public:
  MixtureOfExperts(int64_t dim, int64_t hidden, MixtureOfExpertsOptions options = {});

  /// The result, shaped like the input, and a loss that is least, top_k, when the experts are used
  /// evenly: num_experts * Σ (share of tokens that chose e) * (mean probability of e).
  std::tuple<Tensor, Tensor> forward(const Tensor& input /* … dim */) const;
  void reset_parameters();
  std::string extra_repr() const override;

  int64_t dim, hidden;
  MixtureOfExpertsOptions options;
  Linear gate;             // num_experts dim
  Parameter gate_up_proj;  // num_experts, 2 hidden, dim
  Parameter down_proj;     // num_experts, dim, hidden
  std::optional<FeedForwardSwiGLU> shared_expert;

 private:
  Tensor by_expert(const Tensor& tokens, const Tensor& experts, const Tensor& weights) const;
  Tensor in_slots(const Tensor& tokens, const Tensor& experts, const Tensor& weights) const;
};

}  // namespace tensora::nn

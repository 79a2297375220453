#pragma once

// The adaptive softmax for many classes: rare ones share clusters with smaller projections.

#include "tensora/libtorch/nn/containers.h"
#include "tensora/libtorch/nn/modules_layers.h"

namespace torch::nn {

struct AdaptiveLogSoftmaxWithLossOptions {
  AdaptiveLogSoftmaxWithLossOptions(int64_t in_features, int64_t n_classes,
                                    std::vector<int64_t> cutoffs)
      : in_features_(in_features), n_classes_(n_classes), cutoffs_(std::move(cutoffs)) {}
  TORCH_ARG(int64_t, in_features);
  TORCH_ARG(int64_t, n_classes);
  TORCH_ARG(std::vector<int64_t>, cutoffs);  // the first class of each cluster, increasing
  TORCH_ARG(double, div_value) = 4.;         // each cluster's projection is smaller by this factor
  TORCH_ARG(bool, head_bias) = false;
};

/// The log probability of each target, and the mean of their negatives.
struct ASMoutput {
  ASMoutput(Tensor output_given, double loss_given)
      : output(std::move(output_given)), loss(loss_given) {}
  Tensor output;
  double loss;
};

class AdaptiveLogSoftmaxWithLossImpl : public Cloneable<AdaptiveLogSoftmaxWithLossImpl> {
 public:
  AdaptiveLogSoftmaxWithLossImpl(int64_t in_features, int64_t n_classes,
                                 std::vector<int64_t> cutoffs)
      : AdaptiveLogSoftmaxWithLossImpl(
            AdaptiveLogSoftmaxWithLossOptions(in_features, n_classes, std::move(cutoffs))) {}
  explicit AdaptiveLogSoftmaxWithLossImpl(AdaptiveLogSoftmaxWithLossOptions options_given);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  /// `input` of shape (N, in_features) or (in_features), `target` of shape (N) or ().
  ASMoutput forward(const Tensor& input, const Tensor& target);
  /// The log probabilities of all classes, (N, n_classes).
  Tensor log_prob(const Tensor& input);
  /// The most probable class of each row.
  Tensor predict(const Tensor& input);

  AdaptiveLogSoftmaxWithLossOptions options;
  std::vector<int64_t> cutoffs;  // with n_classes at the end
  int64_t shortlist_size = 0, n_clusters = 0, head_size = 0;
  Linear head = nullptr;
  ModuleList tail;
};
TORCH_MODULE(AdaptiveLogSoftmaxWithLoss);

}  // namespace torch::nn

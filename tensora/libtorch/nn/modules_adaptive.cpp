#include "tensora/libtorch/nn/modules_adaptive.h"

#include <algorithm>
#include <cmath>

namespace torch::nn {

AdaptiveLogSoftmaxWithLossImpl::AdaptiveLogSoftmaxWithLossImpl(
    AdaptiveLogSoftmaxWithLossOptions options_given)
    : options(std::move(options_given)) {
  AdaptiveLogSoftmaxWithLossImpl::reset();
}

void AdaptiveLogSoftmaxWithLossImpl::reset() {
  const std::vector<int64_t>& given = options.cutoffs();
  const bool increasing = std::ranges::adjacent_find(given, std::greater_equal<>()) == given.end();
  tensora::check(
      !given.empty() && given.front() > 0 && given.back() < options.n_classes() && increasing,
      "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
      "where each value is between 1 and n_classes-1");
  tensora::check(options.div_value() != 0, "div_value should not be equal to 0");

  cutoffs = given;
  cutoffs.push_back(options.n_classes());
  shortlist_size = cutoffs.front();
  n_clusters = static_cast<int64_t>(cutoffs.size()) - 1;
  head_size = shortlist_size + n_clusters;
  head = register_module(
      "head", Linear(LinearOptions(options.in_features(), head_size).bias(options.head_bias())));
  tail = register_module("tail", ModuleList());
  for (int64_t i = 0; i < n_clusters; ++i) {
    const auto hidden = static_cast<int64_t>(static_cast<double>(options.in_features()) /
                                             std::pow(options.div_value(), i + 1));
    const auto at = static_cast<size_t>(i);
    tail->push_back(
        Sequential(Linear(LinearOptions(options.in_features(), hidden).bias(false)),
                   Linear(LinearOptions(hidden, cutoffs[at + 1] - cutoffs[at]).bias(false))));
  }
}

void AdaptiveLogSoftmaxWithLossImpl::reset_parameters() {
  head->reset_parameters();
  for (size_t i = 0; i < tail->size(); ++i) {
    auto& projections = tail->at<SequentialImpl>(i);
    projections.at<LinearImpl>(0).reset_parameters();
    projections.at<LinearImpl>(1).reset_parameters();
  }
}

void AdaptiveLogSoftmaxWithLossImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::AdaptiveLogSoftmaxWithLoss";
}

ASMoutput AdaptiveLogSoftmaxWithLossImpl::forward(const Tensor& input, const Tensor& target) {
  tensora::check(input.dim() == target.dim() + 1 && target.dim() <= 1,
                 "AdaptiveLogSoftmaxWithLoss: expected an input of shape (N, in_features) and a "
                 "target of shape (N), or both without N, got ",
                 input.sizes(), " and ", target.sizes());
  if (target.dim() == 0) {
    ASMoutput found = forward(input.unsqueeze(0), target.unsqueeze(0));
    return {found.output.squeeze(0), found.loss};
  }
  tensora::check(input.size(0) == target.size(0),
                 "Input and target should have the same size in the batch dimension.");
  const int64_t count = target.numel();
  tensora::check(count == 0 || (target.min().item<int64_t>() >= 0 &&
                                target.max().item<int64_t>() < options.n_classes()),
                 "Target values should be in [0, n_classes - 1]");

  const Tensor head_logprob = tensora::log_softmax(head(input), 1);
  // A class of the shortlist has its own column of the head, all others that of their cluster.
  Tensor column = target;
  for (int64_t i = 0; i < n_clusters; ++i) {
    const int64_t start = cutoffs[static_cast<size_t>(i)];
    const int64_t end = cutoffs[static_cast<size_t>(i) + 1];
    column = tensora::where((target >= start).logical_and(target < end),
                            tensora::full_like(target, shortlist_size + i), column);
  }
  Tensor output = head_logprob.gather(1, column.unsqueeze(1)).squeeze(1);
  for (int64_t i = 0; i < n_clusters; ++i) {
    const Tensor rows = (column == shortlist_size + i).nonzero().squeeze(1);
    if (rows.numel() == 0) continue;
    const Tensor within = target.index_select(0, rows) - cutoffs[static_cast<size_t>(i)];
    const Tensor logits =
        tail->at<SequentialImpl>(static_cast<size_t>(i)).forward(input.index_select(0, rows));
    const Tensor local = tensora::log_softmax(logits, 1).gather(1, within.unsqueeze(1)).squeeze(1);
    output = output.index_add(0, rows, local);
  }
  return {output, -output.mean().item<double>()};
}

Tensor AdaptiveLogSoftmaxWithLossImpl::log_prob(const Tensor& input) {
  const Tensor head_logprob = tensora::log_softmax(head(input), 1);
  std::vector<Tensor> parts{head_logprob.narrow(1, 0, shortlist_size)};
  for (int64_t i = 0; i < n_clusters; ++i) {
    const Tensor logits = tail->at<SequentialImpl>(static_cast<size_t>(i)).forward(input);
    parts.push_back(tensora::log_softmax(logits, 1) +
                    head_logprob.narrow(1, shortlist_size + i, 1));
  }
  return tensora::cat(parts, 1);
}

Tensor AdaptiveLogSoftmaxWithLossImpl::predict(const Tensor& input) {
  return log_prob(input).argmax(1);
}

}  // namespace torch::nn

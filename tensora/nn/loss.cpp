#include "tensora/nn/loss.h"

#include "tensora/base/check.h"
#include "tensora/nn/distance.h"
#include "tensora/ops/loss/cross_entropy.h"
#include "tensora/ops/loss/ctc.h"
#include "tensora/ops/loss/elementwise.h"
#include "tensora/ops/loss/margins.h"
#include "tensora/ops/loss/multilabel_margin.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/pointwise/variants.h"

namespace tensora::nn {

namespace {

// Refuses a wrong name at once, and keeps no text of the caller's.
Reduction checked(std::string_view layer, Reduction reduction, bool batchmean = false) {
  const Reduction::Kind kind = reduction.kind(layer);
  check(kind != Reduction::batchmean || batchmean, layer, ": there is no reduction 'batchmean'");
  return kind;
}

}  // namespace

L1Loss::L1Loss(LossOptions given) : options(given) {
  options.reduction = checked("L1Loss", given.reduction);
}
Tensor L1Loss::forward(const Tensor& input, const Tensor& target) const {
  return l1_loss(input, target, options.reduction);
}

MSELoss::MSELoss(LossOptions given) : options(given) {
  options.reduction = checked("MSELoss", given.reduction);
}
Tensor MSELoss::forward(const Tensor& input, const Tensor& target) const {
  return mse_loss(input, target, options.reduction);
}

SmoothL1Loss::SmoothL1Loss(SmoothL1LossOptions given) : options(given) {
  options.reduction = checked("SmoothL1Loss", given.reduction);
}
Tensor SmoothL1Loss::forward(const Tensor& input, const Tensor& target) const {
  return smooth_l1_loss(input, target, options.reduction, options.beta);
}

HuberLoss::HuberLoss(HuberLossOptions given) : options(given) {
  options.reduction = checked("HuberLoss", given.reduction);
}
Tensor HuberLoss::forward(const Tensor& input, const Tensor& target) const {
  return huber_loss(input, target, options.reduction, options.delta);
}

CrossEntropyLoss::CrossEntropyLoss(const CrossEntropyLossOptions& given) : options(given) {
  options.reduction = checked("CrossEntropyLoss", given.reduction);
  weight = register_buffer("weight", given.weight);
  options.weight = {};  // the buffer is what moves with the module
}
Tensor CrossEntropyLoss::forward(const Tensor& input, const Tensor& target) const {
  return cross_entropy(input, target, weight, options.ignore_index, options.reduction,
                       options.label_smoothing);
}

NLLLoss::NLLLoss(const NLLLossOptions& given) : options(given) {
  options.reduction = checked("NLLLoss", given.reduction);
  weight = register_buffer("weight", given.weight);
  options.weight = {};  // the buffer is what moves with the module
}
Tensor NLLLoss::forward(const Tensor& input, const Tensor& target) const {
  return nll_loss(input, target, weight, options.ignore_index, options.reduction);
}

PoissonNLLLoss::PoissonNLLLoss(PoissonNLLLossOptions given) : options(given) {
  options.reduction = checked("PoissonNLLLoss", given.reduction);
}
Tensor PoissonNLLLoss::forward(const Tensor& input, const Tensor& target) const {
  return poisson_nll_loss(input, target, options.log_input, options.full, options.eps,
                          options.reduction);
}

GaussianNLLLoss::GaussianNLLLoss(GaussianNLLLossOptions given) : options(given) {
  options.reduction = checked("GaussianNLLLoss", given.reduction);
}
Tensor GaussianNLLLoss::forward(const Tensor& input, const Tensor& target,
                                const Tensor& var) const {
  return gaussian_nll_loss(input, target, var, options.full, options.eps, options.reduction);
}

KLDivLoss::KLDivLoss(KLDivLossOptions given) : options(given) {
  options.reduction = checked("KLDivLoss", given.reduction, true);
}
Tensor KLDivLoss::forward(const Tensor& input, const Tensor& target) const {
  return kl_div(input, target, options.reduction, options.log_target);
}

BCELoss::BCELoss(const BCELossOptions& given) : options(given) {
  options.reduction = checked("BCELoss", given.reduction);
  weight = register_buffer("weight", given.weight);
  options.weight = {};  // the buffer is what moves with the module
}
Tensor BCELoss::forward(const Tensor& input, const Tensor& target) const {
  return binary_cross_entropy(input, target, weight, options.reduction);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(const BCEWithLogitsLossOptions& given) : options(given) {
  options.reduction = checked("BCEWithLogitsLoss", given.reduction);
  weight = register_buffer("weight", given.weight);
  pos_weight = register_buffer("pos_weight", given.pos_weight);
  options.weight = {};  // the buffer is what moves with the module
  options.pos_weight = {};
}
Tensor BCEWithLogitsLoss::forward(const Tensor& input, const Tensor& target) const {
  return binary_cross_entropy_with_logits(input, target, weight, options.reduction, pos_weight);
}

MarginRankingLoss::MarginRankingLoss(MarginRankingLossOptions given) : options(given) {
  options.reduction = checked("MarginRankingLoss", given.reduction);
}
Tensor MarginRankingLoss::forward(const Tensor& input1, const Tensor& input2,
                                  const Tensor& target) const {
  return margin_ranking_loss(input1, input2, target, options.margin, options.reduction);
}

HingeEmbeddingLoss::HingeEmbeddingLoss(HingeEmbeddingLossOptions given) : options(given) {
  options.reduction = checked("HingeEmbeddingLoss", given.reduction);
}
Tensor HingeEmbeddingLoss::forward(const Tensor& input, const Tensor& target) const {
  return hinge_embedding_loss(input, target, options.margin, options.reduction);
}

CosineEmbeddingLoss::CosineEmbeddingLoss(CosineEmbeddingLossOptions given) : options(given) {
  options.reduction = checked("CosineEmbeddingLoss", given.reduction);
}
Tensor CosineEmbeddingLoss::forward(const Tensor& input1, const Tensor& input2,
                                    const Tensor& target) const {
  return cosine_embedding_loss(input1, input2, target, options.margin, options.reduction);
}

SoftMarginLoss::SoftMarginLoss(LossOptions given) : options(given) {
  options.reduction = checked("SoftMarginLoss", given.reduction);
}
Tensor SoftMarginLoss::forward(const Tensor& input, const Tensor& target) const {
  return soft_margin_loss(input, target, options.reduction);
}

MultiLabelMarginLoss::MultiLabelMarginLoss(LossOptions given) : options(given) {
  options.reduction = checked("MultiLabelMarginLoss", given.reduction);
}
Tensor MultiLabelMarginLoss::forward(const Tensor& input, const Tensor& target) const {
  return multilabel_margin_loss(input, target, options.reduction);
}

MultiLabelSoftMarginLoss::MultiLabelSoftMarginLoss(const MultiLabelSoftMarginLossOptions& given)
    : options(given) {
  options.reduction = checked("MultiLabelSoftMarginLoss", given.reduction);
  weight = register_buffer("weight", given.weight);
  options.weight = {};  // the buffer is what moves with the module
}
Tensor MultiLabelSoftMarginLoss::forward(const Tensor& input, const Tensor& target) const {
  return multilabel_soft_margin_loss(input, target, weight, options.reduction);
}

MultiMarginLoss::MultiMarginLoss(const MultiMarginLossOptions& given) : options(given) {
  options.reduction = checked("MultiMarginLoss", given.reduction);
  weight = register_buffer("weight", given.weight);
  options.weight = {};  // the buffer is what moves with the module
}
Tensor MultiMarginLoss::forward(const Tensor& input, const Tensor& target) const {
  return multi_margin_loss(input, target, static_cast<double>(options.p), options.margin, weight,
                           options.reduction);
}

TripletMarginLoss::TripletMarginLoss(TripletMarginLossOptions given) : options(given) {
  options.reduction = checked("TripletMarginLoss", given.reduction);
}
Tensor TripletMarginLoss::forward(const Tensor& anchor, const Tensor& positive,
                                  const Tensor& negative) const {
  return triplet_margin_loss(anchor, positive, negative, options.margin, options.p, options.eps,
                             options.swap, options.reduction);
}

TripletMarginWithDistanceLoss::TripletMarginWithDistanceLoss(
    const TripletMarginWithDistanceLossOptions& given)
    : options(given) {
  options.reduction = checked("TripletMarginWithDistanceLoss", given.reduction);
  check(given.margin > 0, "TripletMarginWithDistanceLoss: expected margin above 0, got ",
        given.margin);
  if (!given.distance_function)
    options.distance_function = register_module("distance_function", PairwiseDistance());
}
Tensor TripletMarginWithDistanceLoss::forward(const Tensor& anchor, const Tensor& positive,
                                              const Tensor& negative) const {
  const auto& distance = options.distance_function;
  Tensor away = distance(anchor, negative);
  if (options.swap) away = minimum(away, distance(positive, negative));
  const Tensor losses = distance(anchor, positive).sub(away).add(options.margin).clamp(0);
  return reduce_loss("TripletMarginWithDistanceLoss", losses, options.reduction);
}

CTCLoss::CTCLoss(CTCLossOptions given) : options(given) {
  options.reduction = checked("CTCLoss", given.reduction);
}
Tensor CTCLoss::forward(const Tensor& log_probs, const Tensor& targets,
                        const std::vector<int64_t>& input_lengths,
                        const std::vector<int64_t>& target_lengths) const {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths, options.blank,
                  options.reduction, options.zero_infinity);
}
Tensor CTCLoss::forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                        const Tensor& target_lengths) const {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths, options.blank,
                  options.reduction, options.zero_infinity);
}

}  // namespace tensora::nn

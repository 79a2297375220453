#include "tensora/libtorch/nn/modules_loss.h"

namespace torch::nn {

L1LossImpl::L1LossImpl(const L1LossOptions& options_given) : options(options_given) {}
void L1LossImpl::reset() {}
Tensor L1LossImpl::forward(const Tensor& input, const Tensor& target) {
  return functional::l1_loss(input, target, options);
}
void L1LossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::L1Loss()";
}

KLDivLossImpl::KLDivLossImpl(const KLDivLossOptions& options_given) : options(options_given) {}
void KLDivLossImpl::reset() {}
Tensor KLDivLossImpl::forward(const Tensor& input, const Tensor& target) {
  return functional::kl_div(input, target, options);
}
void KLDivLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::KLDivLoss()";
}

MSELossImpl::MSELossImpl(const MSELossOptions& options_given) : options(options_given) {}
void MSELossImpl::reset() {}
Tensor MSELossImpl::forward(const Tensor& input, const Tensor& target) {
  return functional::mse_loss(input, target, options);
}
void MSELossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::MSELoss()";
}

BCELossImpl::BCELossImpl(const BCELossOptions& options_given) : options(options_given) { reset(); }
void BCELossImpl::reset() { weight = register_buffer("weight", options.weight()); }
Tensor BCELossImpl::forward(const Tensor& input, const Tensor& target) {
  auto call = options;
  call.weight(weight);
  return functional::binary_cross_entropy(input, target, call);
}
void BCELossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::BCELoss()";
}

HingeEmbeddingLossImpl::HingeEmbeddingLossImpl(const HingeEmbeddingLossOptions& options_given)
    : options(options_given) {}
void HingeEmbeddingLossImpl::reset() {}
Tensor HingeEmbeddingLossImpl::forward(const Tensor& input, const Tensor& target) {
  return functional::hinge_embedding_loss(input, target, options);
}
void HingeEmbeddingLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::HingeEmbeddingLoss(margin=" << options.margin() << ")";
}

MultiMarginLossImpl::MultiMarginLossImpl(const MultiMarginLossOptions& options_given)
    : options(options_given) {
  reset();
}
void MultiMarginLossImpl::reset() { weight = register_buffer("weight", options.weight()); }
Tensor MultiMarginLossImpl::forward(const Tensor& input, const Tensor& target) {
  auto call = options;
  call.weight(weight);
  return functional::multi_margin_loss(input, target, call);
}
void MultiMarginLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::MultiMarginLoss(p=" << options.p()
         << ", margin=" << options.margin() << ", weight=" << options.weight()
         << ", reduction=" << options.reduction() << ")";
}

CosineEmbeddingLossImpl::CosineEmbeddingLossImpl(const CosineEmbeddingLossOptions& options_given)
    : options(options_given) {}
void CosineEmbeddingLossImpl::reset() {}
Tensor CosineEmbeddingLossImpl::forward(const Tensor& input1, const Tensor& input2,
                                        const Tensor& target) {
  return functional::cosine_embedding_loss(input1, input2, target, options);
}
void CosineEmbeddingLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::CosineEmbeddingLoss(margin=" << options.margin() << ")";
}

SmoothL1LossImpl::SmoothL1LossImpl(const SmoothL1LossOptions& options_given)
    : options(options_given) {}
void SmoothL1LossImpl::reset() {}
Tensor SmoothL1LossImpl::forward(const Tensor& input, const Tensor& target) {
  return functional::smooth_l1_loss(input, target, options);
}
void SmoothL1LossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::SmoothL1Loss()";
}

HuberLossImpl::HuberLossImpl(const HuberLossOptions& options_given) : options(options_given) {}
void HuberLossImpl::reset() {}
Tensor HuberLossImpl::forward(const Tensor& input, const Tensor& target) {
  return functional::huber_loss(input, target, options);
}
void HuberLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::HuberLoss()";
}

MultiLabelMarginLossImpl::MultiLabelMarginLossImpl(const MultiLabelMarginLossOptions& options_given)
    : options(options_given) {}
void MultiLabelMarginLossImpl::reset() {}
Tensor MultiLabelMarginLossImpl::forward(const Tensor& input, const Tensor& target) {
  return functional::multilabel_margin_loss(input, target, options);
}
void MultiLabelMarginLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::MultiLabelMarginLoss()";
}

SoftMarginLossImpl::SoftMarginLossImpl(const SoftMarginLossOptions& options_given)
    : options(options_given) {}
void SoftMarginLossImpl::reset() {}
Tensor SoftMarginLossImpl::forward(const Tensor& input, const Tensor& target) {
  return functional::soft_margin_loss(input, target, options);
}
void SoftMarginLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::SoftMarginLoss()";
}

MultiLabelSoftMarginLossImpl::MultiLabelSoftMarginLossImpl(
    const MultiLabelSoftMarginLossOptions& options_given)
    : options(options_given) {
  reset();
}
void MultiLabelSoftMarginLossImpl::reset() { weight = register_buffer("weight", options.weight()); }
Tensor MultiLabelSoftMarginLossImpl::forward(const Tensor& input, const Tensor& target) {
  auto call = options;
  call.weight(weight);
  return functional::multilabel_soft_margin_loss(input, target, call);
}
void MultiLabelSoftMarginLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::MultiLabelSoftMarginLoss()";
}

TripletMarginLossImpl::TripletMarginLossImpl(const TripletMarginLossOptions& options_given)
    : options(options_given) {}
void TripletMarginLossImpl::reset() {}
Tensor TripletMarginLossImpl::forward(const Tensor& anchor, const Tensor& positive,
                                      const Tensor& negative) {
  return functional::triplet_margin_loss(anchor, positive, negative, options);
}
void TripletMarginLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::TripletMarginLoss(margin=" << options.margin()
         << ", p=" << options.p() << ", eps=" << options.eps() << ", swap=" << options.swap()
         << ")";
}

TripletMarginWithDistanceLossImpl::TripletMarginWithDistanceLossImpl(
    const TripletMarginWithDistanceLossOptions& options_given)
    : options(options_given) {}
void TripletMarginWithDistanceLossImpl::reset() {}
Tensor TripletMarginWithDistanceLossImpl::forward(const Tensor& anchor, const Tensor& positive,
                                                  const Tensor& negative) {
  return functional::triplet_margin_with_distance_loss(anchor, positive, negative, options);
}
void TripletMarginWithDistanceLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::TripletMarginWithDistanceLoss(margin=" << options.margin()
         << ", swap=" << options.swap() << ")";
}

CTCLossImpl::CTCLossImpl(const CTCLossOptions& options_given) : options(options_given) {}
void CTCLossImpl::reset() {}
Tensor CTCLossImpl::forward(const Tensor& log_probs, const Tensor& targets,
                            const Tensor& input_lengths, const Tensor& target_lengths) {
  return functional::ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
}
void CTCLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::CTCLoss()";
}

PoissonNLLLossImpl::PoissonNLLLossImpl(const PoissonNLLLossOptions& options_given)
    : options(options_given) {}
void PoissonNLLLossImpl::reset() {}
Tensor PoissonNLLLossImpl::forward(const Tensor& log_input, const Tensor& targets) {
  return functional::poisson_nll_loss(log_input, targets, options);
}
void PoissonNLLLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::PoissonNLLLoss()";
}

MarginRankingLossImpl::MarginRankingLossImpl(const MarginRankingLossOptions& options_given)
    : options(options_given) {}
void MarginRankingLossImpl::reset() {}
Tensor MarginRankingLossImpl::forward(const Tensor& input1, const Tensor& input2,
                                      const Tensor& targets) {
  return functional::margin_ranking_loss(input1, input2, targets, options);
}
void MarginRankingLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::MarginRankingLoss()";
}

NLLLossImpl::NLLLossImpl(const NLLLossOptions& options_given) : options(options_given) { reset(); }
void NLLLossImpl::reset() { weight = register_buffer("weight", options.weight()); }
Tensor NLLLossImpl::forward(const Tensor& input, const Tensor& target) {
  auto call = options;
  call.weight(weight);
  return functional::nll_loss(input, target, call);
}
void NLLLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::NLLLoss()";
}

CrossEntropyLossImpl::CrossEntropyLossImpl(const CrossEntropyLossOptions& options_given)
    : options(options_given) {
  reset();
}
void CrossEntropyLossImpl::reset() { weight = register_buffer("weight", options.weight()); }
Tensor CrossEntropyLossImpl::forward(const Tensor& input, const Tensor& target) {
  auto call = options;
  call.weight(weight);
  return functional::cross_entropy(input, target, call);
}
void CrossEntropyLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::CrossEntropyLoss()";
}

BCEWithLogitsLossImpl::BCEWithLogitsLossImpl(const BCEWithLogitsLossOptions& options_given)
    : options(options_given) {
  reset();
}
void BCEWithLogitsLossImpl::reset() {
  weight = register_buffer("weight", options.weight());
  pos_weight = register_buffer("pos_weight", options.pos_weight());
}
Tensor BCEWithLogitsLossImpl::forward(const Tensor& input, const Tensor& target) {
  auto call = options;
  call.weight(weight).pos_weight(pos_weight);
  return functional::binary_cross_entropy_with_logits(input, target, call);
}
void BCEWithLogitsLossImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::BCEWithLogitsLoss()";
}

}  // namespace torch::nn

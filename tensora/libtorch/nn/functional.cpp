#include "tensora/libtorch/nn/functional.h"

#include "tensora/nn/loss.h"
#include "tensora/ops.h"

namespace torch {

tensora::Reduction to_reduction(const Choice& choice) { return tensora::Reduction(choice.text); }

namespace nn::functional {

namespace {

void check_probability(double p) {
  tensora::check(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
}

Tensor written(const Tensor& input, bool inplace, const Tensor& result) {
  return inplace ? input.copy_(result) : result;
}

}  // namespace

// ---- Activations.

Tensor elu(const Tensor& input, const ELUFuncOptions& options) {
  return options.inplace() ? tensora::elu_(input, options.alpha())
                           : tensora::elu(input, options.alpha());
}

Tensor selu(const Tensor& input, const SELUFuncOptions& options) {
  return options.inplace() ? tensora::selu_(input) : tensora::selu(input);
}

Tensor relu(const Tensor& input, const ReLUFuncOptions& options) {
  return options.inplace() ? tensora::relu_(input) : tensora::relu(input);
}

Tensor relu6(const Tensor& input, const ReLU6FuncOptions& options) {
  return options.inplace() ? tensora::hardtanh_(input, 0, 6) : tensora::relu6(input);
}

Tensor hardtanh(const Tensor& input, const HardtanhFuncOptions& options) {
  return options.inplace() ? tensora::hardtanh_(input, options.min_val(), options.max_val())
                           : tensora::hardtanh(input, options.min_val(), options.max_val());
}

Tensor leaky_relu(const Tensor& input, const LeakyReLUFuncOptions& options) {
  return options.inplace() ? tensora::leaky_relu_(input, options.negative_slope())
                           : tensora::leaky_relu(input, options.negative_slope());
}

Tensor rrelu(const Tensor& input, const RReLUFuncOptions& options) {
  return options.inplace()
             ? tensora::rrelu_(input, options.lower(), options.upper(), options.training())
             : tensora::rrelu(input, options.lower(), options.upper(), options.training());
}

Tensor celu(const Tensor& input, const CELUFuncOptions& options) {
  return options.inplace() ? tensora::celu_(input, options.alpha())
                           : tensora::celu(input, options.alpha());
}

Tensor threshold(const Tensor& input, const ThresholdFuncOptions& options) {
  return options.inplace() ? tensora::threshold_(input, options.threshold(), options.value())
                           : tensora::threshold(input, options.threshold(), options.value());
}

Tensor hardshrink(const Tensor& input, const HardshrinkFuncOptions& options) {
  return tensora::hardshrink(input, options.lambda());
}

Tensor softshrink(const Tensor& input, const SoftshrinkFuncOptions& options) {
  return tensora::softshrink(input, options.lambda());
}

Tensor softplus(const Tensor& input, const SoftplusFuncOptions& options) {
  return tensora::softplus(input, options.beta(), options.threshold());
}

Tensor glu(const Tensor& input, const GLUFuncOptions& options) {
  return tensora::glu(input, options.dim());
}

Tensor gelu(const Tensor& input, const GELUFuncOptions& options) {
  return tensora::gelu(input, options.approximate());
}

Tensor softmax(const Tensor& input, const SoftmaxFuncOptions& options) {
  return tensora::softmax(input, options.dim(), options.dtype());
}

Tensor softmin(const Tensor& input, const SoftminFuncOptions& options) {
  return tensora::softmin(input, options.dim(), options.dtype());
}

Tensor log_softmax(const Tensor& input, const LogSoftmaxFuncOptions& options) {
  return tensora::log_softmax(input, options.dim(), options.dtype());
}

Tensor gumbel_softmax(const Tensor& input, const GumbelSoftmaxFuncOptions& options) {
  return tensora::gumbel_softmax(input, options.tau(), options.hard(), options.dim());
}

// ---- Dropouts.

Tensor dropout(const Tensor& input, const DropoutFuncOptions& options) {
  check_probability(options.p());
  return options.inplace() ? tensora::dropout_(input, options.p(), options.training())
                           : tensora::dropout(input, options.p(), options.training());
}

Tensor dropout2d(const Tensor& input, const Dropout2dFuncOptions& options) {
  check_probability(options.p());
  return written(input, options.inplace(),
                 tensora::dropout2d(input, options.p(), options.training()));
}

Tensor dropout3d(const Tensor& input, const Dropout3dFuncOptions& options) {
  check_probability(options.p());
  return written(input, options.inplace(),
                 tensora::dropout3d(input, options.p(), options.training()));
}

Tensor alpha_dropout(const Tensor& input, const AlphaDropoutFuncOptions& options) {
  check_probability(options.p());
  return options.inplace() ? tensora::alpha_dropout_(input, options.p(), options.training())
                           : tensora::alpha_dropout(input, options.p(), options.training());
}

Tensor feature_alpha_dropout(const Tensor& input, const FeatureAlphaDropoutFuncOptions& options) {
  check_probability(options.p());
  return written(input, options.inplace(),
                 tensora::feature_alpha_dropout(input, options.p(), options.training()));
}

// ---- Linear functions, embeddings and distances.

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return tensora::linear(input, weight, bias);
}

Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight,
                const Tensor& bias) {
  return tensora::bilinear(input1, input2, weight, bias);
}

Tensor one_hot(const Tensor& tensor, int64_t num_classes) {
  return tensora::one_hot(tensor, num_classes);
}

Tensor embedding(const Tensor& input, const Tensor& weight, const EmbeddingFuncOptions& options) {
  return tensora::embedding(input, weight, options.padding_idx(), options.max_norm(),
                            options.norm_type(), options.scale_grad_by_freq(), options.sparse());
}

Tensor embedding_bag(const Tensor& input, const Tensor& weight,
                     const EmbeddingBagFuncOptions& options) {
  return tensora::embedding_bag(input, weight, options.offsets(), options.max_norm(),
                                options.norm_type(), options.scale_grad_by_freq(),
                                options.mode().text, options.sparse(), options.per_sample_weights(),
                                options.include_last_offset(), options.padding_idx());
}

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2,
                         const CosineSimilarityFuncOptions& options) {
  return tensora::cosine_similarity(x1, x2, options.dim(), options.eps());
}

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2,
                         const PairwiseDistanceFuncOptions& options) {
  return tensora::pairwise_distance(x1, x2, options.p(), options.eps(), options.keepdim());
}

Tensor normalize(const Tensor& input, const NormalizeFuncOptions& options) {
  const Tensor result = tensora::normalize(input, options.p(), options.dim(), options.eps());
  if (options.out()) return options.out()->copy_(result);
  return result;
}

// ---- Norms.

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormFuncOptions& options) {
  return tensora::batch_norm(input, running_mean, running_var, options.weight(), options.bias(),
                             options.training(), options.momentum().value_or(0.0), options.eps());
}

Tensor instance_norm(const Tensor& input, const InstanceNormFuncOptions& options) {
  return tensora::instance_norm(input, options.running_mean(), options.running_var(),
                                options.weight(), options.bias(), options.use_input_stats(),
                                options.momentum(), options.eps());
}

Tensor layer_norm(const Tensor& input, const LayerNormFuncOptions& options) {
  return tensora::layer_norm(input, options.normalized_shape(), options.weight(), options.bias(),
                             options.eps());
}

Tensor group_norm(const Tensor& input, const GroupNormFuncOptions& options) {
  return tensora::group_norm(input, options.num_groups(), options.weight(), options.bias(),
                             options.eps());
}

Tensor local_response_norm(const Tensor& input, const LocalResponseNormFuncOptions& options) {
  return tensora::local_response_norm(input, options.size(), options.alpha(), options.beta(),
                                      options.k());
}

// ---- Losses.

Tensor l1_loss(const Tensor& input, const Tensor& target, const L1LossFuncOptions& options) {
  return tensora::l1_loss(input, target, to_reduction(options.reduction()));
}

Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivFuncOptions& options) {
  return tensora::kl_div(input, target, to_reduction(options.reduction()), options.log_target());
}

Tensor mse_loss(const Tensor& input, const Tensor& target, const MSELossFuncOptions& options) {
  return tensora::mse_loss(input, target, to_reduction(options.reduction()));
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BinaryCrossEntropyFuncOptions& options) {
  return tensora::binary_cross_entropy(input, target, options.weight(),
                                       to_reduction(options.reduction()));
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target,
                            const HingeEmbeddingLossFuncOptions& options) {
  return tensora::hinge_embedding_loss(input, target, options.margin(),
                                       to_reduction(options.reduction()));
}

Tensor multi_margin_loss(const Tensor& input, const Tensor& target,
                         const MultiMarginLossFuncOptions& options) {
  return tensora::multi_margin_loss(input, target, static_cast<double>(options.p()),
                                    options.margin(), options.weight(),
                                    to_reduction(options.reduction()));
}

Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             const CosineEmbeddingLossFuncOptions& options) {
  return tensora::cosine_embedding_loss(input1, input2, target, options.margin(),
                                        to_reduction(options.reduction()));
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossFuncOptions& options) {
  return tensora::smooth_l1_loss(input, target, to_reduction(options.reduction()),
                                 options.beta().value_or(1.0));
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossFuncOptions& options, double beta) {
  tensora::check(!options.beta(),
                 "smooth_l1_loss: beta is given both as an option and as an argument");
  return tensora::smooth_l1_loss(input, target, to_reduction(options.reduction()), beta);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossFuncOptions& options) {
  return tensora::huber_loss(input, target, to_reduction(options.reduction()), options.delta());
}

Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              const MultilabelMarginLossFuncOptions& options) {
  return tensora::multilabel_margin_loss(input, target, to_reduction(options.reduction()));
}

Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                        const SoftMarginLossFuncOptions& options) {
  return tensora::soft_margin_loss(input, target, to_reduction(options.reduction()));
}

Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultilabelSoftMarginLossFuncOptions& options) {
  return tensora::multilabel_soft_margin_loss(input, target, options.weight(),
                                              to_reduction(options.reduction()));
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossFuncOptions& options) {
  return tensora::triplet_margin_loss(anchor, positive, negative, options.margin(), options.p(),
                                      options.eps(), options.swap(),
                                      to_reduction(options.reduction()));
}

Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative,
                                         const TripletMarginWithDistanceLossFuncOptions& options) {
  return tensora::nn::TripletMarginWithDistanceLoss(
             {.distance_function = options.distance_function().value_or(nullptr),
              .margin = options.margin(),
              .swap = options.swap(),
              .reduction = to_reduction(options.reduction())})
      .forward(anchor, positive, negative);
}

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossFuncOptions& options) {
  return tensora::ctc_loss(log_probs, targets, input_lengths, target_lengths, options.blank(),
                           to_reduction(options.reduction()), options.zero_infinity());
}

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target,
                        const PoissonNLLLossFuncOptions& options) {
  return tensora::poisson_nll_loss(input, target, options.log_input(), options.full(),
                                   options.eps(), to_reduction(options.reduction()));
}

Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           const MarginRankingLossFuncOptions& options) {
  return tensora::margin_ranking_loss(input1, input2, target, options.margin(),
                                      to_reduction(options.reduction()));
}

Tensor nll_loss(const Tensor& input, const Tensor& target, const NLLLossFuncOptions& options) {
  return tensora::nll_loss(input, target, options.weight(), options.ignore_index(),
                           to_reduction(options.reduction()));
}

Tensor cross_entropy(const Tensor& input, const Tensor& target,
                     const CrossEntropyFuncOptions& options) {
  return tensora::cross_entropy(input, target, options.weight(), options.ignore_index(),
                                to_reduction(options.reduction()), options.label_smoothing());
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BinaryCrossEntropyWithLogitsFuncOptions& options) {
  return tensora::binary_cross_entropy_with_logits(
      input, target, options.weight(), to_reduction(options.reduction()), options.pos_weight());
}

}  // namespace nn::functional
}  // namespace torch

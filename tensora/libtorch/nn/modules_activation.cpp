#include "tensora/libtorch/nn/modules_activation.h"

#include "tensora/ops.h"

namespace torch::nn {

ELUImpl::ELUImpl(const ELUOptions& options_given) : options(options_given) {}
void ELUImpl::reset() {}
Tensor ELUImpl::forward(Tensor input) { return functional::elu(input, options); }
void ELUImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ELU(alpha=" << options.alpha() << "";
  if (options.inplace()) stream << ", inplace=true";
  stream << ")";
}

SELUImpl::SELUImpl(const SELUOptions& options_given) : options(options_given) {}
void SELUImpl::reset() {}
Tensor SELUImpl::forward(Tensor input) { return functional::selu(input, options); }
void SELUImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::SELU(";
  if (options.inplace()) stream << "inplace=true";
  stream << ")";
}

ReLUImpl::ReLUImpl(const ReLUOptions& options_given) : options(options_given) {}
void ReLUImpl::reset() {}
Tensor ReLUImpl::forward(Tensor input) { return functional::relu(input, options); }
void ReLUImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ReLU(";
  if (options.inplace()) stream << "inplace=true";
  stream << ")";
}

ReLU6Impl::ReLU6Impl(const ReLU6Options& options_given) : options(options_given) {}
void ReLU6Impl::reset() {}
Tensor ReLU6Impl::forward(Tensor input) { return functional::relu6(input, options); }
void ReLU6Impl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ReLU6(";
  if (options.inplace()) stream << "inplace=true";
  stream << ")";
}

CELUImpl::CELUImpl(const CELUOptions& options_given) : options(options_given) {}
void CELUImpl::reset() {}
Tensor CELUImpl::forward(Tensor input) { return functional::celu(input, options); }
void CELUImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::CELU(alpha=" << options.alpha() << "";
  if (options.inplace()) stream << ", inplace=true";
  stream << ")";
}

HardtanhImpl::HardtanhImpl(const HardtanhOptions& options_given) : options(options_given) {
  HardtanhImpl::reset();
}
void HardtanhImpl::reset() {
  tensora::check(options.min_val() < options.max_val(), "max_val must be greater than min_val");
}
Tensor HardtanhImpl::forward(Tensor input) { return functional::hardtanh(input, options); }
void HardtanhImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Hardtanh(min_val=" << options.min_val()
         << ", max_val=" << options.max_val() << "";
  if (options.inplace()) stream << ", inplace=true";
  stream << ")";
}

LeakyReLUImpl::LeakyReLUImpl(const LeakyReLUOptions& options_given) : options(options_given) {}
void LeakyReLUImpl::reset() {}
Tensor LeakyReLUImpl::forward(Tensor input) { return functional::leaky_relu(input, options); }
void LeakyReLUImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::LeakyReLU(negative_slope=" << options.negative_slope()
         << "";
  if (options.inplace()) stream << ", inplace=true";
  stream << ")";
}

RReLUImpl::RReLUImpl(const RReLUOptions& options_given) : options(options_given) {}
void RReLUImpl::reset() {}
Tensor RReLUImpl::forward(Tensor input) {
  return functional::rrelu(input, functional::RReLUFuncOptions()
                                      .lower(options.lower())
                                      .upper(options.upper())
                                      .training(is_training())
                                      .inplace(options.inplace()));
}
void RReLUImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::RReLU(lower=" << options.lower()
         << ", upper=" << options.upper() << "";
  if (options.inplace()) stream << ", inplace=true";
  stream << ")";
}

ThresholdImpl::ThresholdImpl(const ThresholdOptions& options_given) : options(options_given) {}
void ThresholdImpl::reset() {}
Tensor ThresholdImpl::forward(Tensor input) { return functional::threshold(input, options); }
void ThresholdImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Threshold(threshold=" << options.threshold()
         << ", value=" << options.value() << "";
  if (options.inplace()) stream << ", inplace=true";
  stream << ")";
}

HardshrinkImpl::HardshrinkImpl(const HardshrinkOptions& options_given) : options(options_given) {}
void HardshrinkImpl::reset() {}
Tensor HardshrinkImpl::forward(const Tensor& input) {
  return functional::hardshrink(input, options);
}
void HardshrinkImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Hardshrink(" << options.lambda() << ")";
}

SoftshrinkImpl::SoftshrinkImpl(const SoftshrinkOptions& options_given) : options(options_given) {}
void SoftshrinkImpl::reset() {}
Tensor SoftshrinkImpl::forward(const Tensor& input) {
  return functional::softshrink(input, options);
}
void SoftshrinkImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Softshrink(" << options.lambda() << ")";
}

SoftplusImpl::SoftplusImpl(const SoftplusOptions& options_given) : options(options_given) {}
void SoftplusImpl::reset() {}
Tensor SoftplusImpl::forward(const Tensor& input) { return functional::softplus(input, options); }
void SoftplusImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Softplus(beta=" << options.beta()
         << ", threshold=" << options.threshold() << ")";
}

GLUImpl::GLUImpl(const GLUOptions& options_given) : options(options_given) {}
void GLUImpl::reset() {}
Tensor GLUImpl::forward(const Tensor& input) { return functional::glu(input, options); }
void GLUImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::GLU(dim=" << options.dim() << ")";
}

GELUImpl::GELUImpl(const GELUOptions& options_given) : options(options_given) {}
void GELUImpl::reset() {}
Tensor GELUImpl::forward(const Tensor& input) { return functional::gelu(input, options); }
void GELUImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::GELU(approximate=" << options.approximate() << ")";
}

SoftmaxImpl::SoftmaxImpl(const SoftmaxOptions& options_given) : options(options_given) {}
void SoftmaxImpl::reset() {}
Tensor SoftmaxImpl::forward(const Tensor& input) {
  return functional::softmax(input, options.dim());
}
void SoftmaxImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Softmax(dim=" << options.dim() << ")";
}

SoftminImpl::SoftminImpl(const SoftminOptions& options_given) : options(options_given) {}
void SoftminImpl::reset() {}
Tensor SoftminImpl::forward(const Tensor& input) {
  return functional::softmin(input, options.dim());
}
void SoftminImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Softmin(dim=" << options.dim() << ")";
}

LogSoftmaxImpl::LogSoftmaxImpl(const LogSoftmaxOptions& options_given) : options(options_given) {}
void LogSoftmaxImpl::reset() {}
Tensor LogSoftmaxImpl::forward(const Tensor& input) {
  return functional::log_softmax(input, options.dim());
}
void LogSoftmaxImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::LogSoftmax(dim=" << options.dim() << ")";
}

Softmax2dImpl::Softmax2dImpl() = default;
void Softmax2dImpl::reset() {}
Tensor Softmax2dImpl::forward(const Tensor& input) {
  tensora::check(input.dim() == 4 || input.dim() == 3,
                 "Softmax2d requires a 3D or 4D tensor as input");
  return tensora::softmax(input, -3);
}
void Softmax2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Softmax2d()";
}

LogSigmoidImpl::LogSigmoidImpl() = default;
void LogSigmoidImpl::reset() {}
Tensor LogSigmoidImpl::forward(const Tensor& input) { return tensora::logsigmoid(input); }
void LogSigmoidImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::LogSigmoid()";
}

SigmoidImpl::SigmoidImpl() = default;
void SigmoidImpl::reset() {}
Tensor SigmoidImpl::forward(const Tensor& input) { return tensora::sigmoid(input); }
void SigmoidImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Sigmoid()";
}

SoftsignImpl::SoftsignImpl() = default;
void SoftsignImpl::reset() {}
Tensor SoftsignImpl::forward(const Tensor& input) { return tensora::softsign(input); }
void SoftsignImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Softsign()";
}

TanhImpl::TanhImpl() = default;
void TanhImpl::reset() {}
Tensor TanhImpl::forward(const Tensor& input) { return tensora::tanh(input); }
void TanhImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Tanh()";
}

TanhshrinkImpl::TanhshrinkImpl() = default;
void TanhshrinkImpl::reset() {}
Tensor TanhshrinkImpl::forward(const Tensor& input) { return tensora::tanhshrink(input); }
void TanhshrinkImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Tanhshrink()";
}

SiLUImpl::SiLUImpl() = default;
void SiLUImpl::reset() {}
Tensor SiLUImpl::forward(const Tensor& input) { return tensora::silu(input); }
void SiLUImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::SiLU()";
}

MishImpl::MishImpl() = default;
void MishImpl::reset() {}
Tensor MishImpl::forward(const Tensor& input) { return tensora::mish(input); }
void MishImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Mish()";
}

IdentityImpl::IdentityImpl() = default;
void IdentityImpl::reset() {}
Tensor IdentityImpl::forward(const Tensor& input) { return input; }
void IdentityImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Identity()";
}

DropoutImpl::DropoutImpl(const DropoutOptions& options_given) : options(options_given) { reset(); }
void DropoutImpl::reset() {
  tensora::check(options.p() >= 0 && options.p() <= 1,
                 "dropout probability has to be between 0 and 1, but got ", options.p());
}
Tensor DropoutImpl::forward(Tensor input) {
  return functional::dropout(input, functional::DropoutFuncOptions()
                                        .p(options.p())
                                        .training(is_training())
                                        .inplace(options.inplace()));
}
void DropoutImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Dropout(p=" << options.p()
         << ", inplace=" << options.inplace() << ")";
}

Dropout2dImpl::Dropout2dImpl(const Dropout2dOptions& options_given) : options(options_given) {
  reset();
}
void Dropout2dImpl::reset() {
  tensora::check(options.p() >= 0 && options.p() <= 1,
                 "dropout probability has to be between 0 and 1, but got ", options.p());
}
Tensor Dropout2dImpl::forward(Tensor input) {
  return functional::dropout2d(input, functional::Dropout2dFuncOptions()
                                          .p(options.p())
                                          .training(is_training())
                                          .inplace(options.inplace()));
}
void Dropout2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Dropout2d(p=" << options.p()
         << ", inplace=" << options.inplace() << ")";
}

Dropout3dImpl::Dropout3dImpl(const Dropout3dOptions& options_given) : options(options_given) {
  reset();
}
void Dropout3dImpl::reset() {
  tensora::check(options.p() >= 0 && options.p() <= 1,
                 "dropout probability has to be between 0 and 1, but got ", options.p());
}
Tensor Dropout3dImpl::forward(Tensor input) {
  return functional::dropout3d(input, functional::Dropout3dFuncOptions()
                                          .p(options.p())
                                          .training(is_training())
                                          .inplace(options.inplace()));
}
void Dropout3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Dropout3d(p=" << options.p()
         << ", inplace=" << options.inplace() << ")";
}

AlphaDropoutImpl::AlphaDropoutImpl(const AlphaDropoutOptions& options_given)
    : options(options_given) {
  reset();
}
void AlphaDropoutImpl::reset() {
  tensora::check(options.p() >= 0 && options.p() <= 1,
                 "dropout probability has to be between 0 and 1, but got ", options.p());
}
Tensor AlphaDropoutImpl::forward(const Tensor& input) {
  return functional::alpha_dropout(input, functional::AlphaDropoutFuncOptions()
                                              .p(options.p())
                                              .training(is_training())
                                              .inplace(options.inplace()));
}
void AlphaDropoutImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::AlphaDropout(p=" << options.p()
         << ", inplace=" << options.inplace() << ")";
}

FeatureAlphaDropoutImpl::FeatureAlphaDropoutImpl(const FeatureAlphaDropoutOptions& options_given)
    : options(options_given) {
  reset();
}
void FeatureAlphaDropoutImpl::reset() {
  tensora::check(options.p() >= 0 && options.p() <= 1,
                 "dropout probability has to be between 0 and 1, but got ", options.p());
}
Tensor FeatureAlphaDropoutImpl::forward(const Tensor& input) {
  return functional::feature_alpha_dropout(input, functional::FeatureAlphaDropoutFuncOptions()
                                                      .p(options.p())
                                                      .training(is_training())
                                                      .inplace(options.inplace()));
}
void FeatureAlphaDropoutImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::FeatureAlphaDropout(p=" << options.p()
         << ", inplace=" << options.inplace() << ")";
}

CosineSimilarityImpl::CosineSimilarityImpl(const CosineSimilarityOptions& options_given)
    : options(options_given) {}
void CosineSimilarityImpl::reset() {}
Tensor CosineSimilarityImpl::forward(const Tensor& input1, const Tensor& input2) {
  return functional::cosine_similarity(input1, input2, options);
}
void CosineSimilarityImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::CosineSimilarity(dim=" << options.dim()
         << ", eps=" << options.eps() << ")";
}

PairwiseDistanceImpl::PairwiseDistanceImpl(const PairwiseDistanceOptions& options_given)
    : options(options_given) {}
void PairwiseDistanceImpl::reset() {}
Tensor PairwiseDistanceImpl::forward(const Tensor& input1, const Tensor& input2) {
  return functional::pairwise_distance(input1, input2, options);
}
void PairwiseDistanceImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::PairwiseDistance(p=" << options.p()
         << ", eps=" << options.eps() << ", keepdim=" << options.keepdim() << ")";
}

FlattenImpl::FlattenImpl(const FlattenOptions& options_given) : options(options_given) {}
void FlattenImpl::reset() {}
Tensor FlattenImpl::forward(const Tensor& input) {
  return input.flatten(options.start_dim(), options.end_dim());
}
void FlattenImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Flatten(start_dim=" << options.start_dim()
         << ", end_dim=" << options.end_dim() << ")";
}

}  // namespace torch::nn

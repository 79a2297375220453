#include "tensora/libtorch/nn/modules_layers.h"

#include "tensora/nn/activation.h"
#include "tensora/nn/bilinear.h"
#include "tensora/nn/embedding.h"
#include "tensora/nn/group_norm.h"
#include "tensora/nn/layer_norm.h"
#include "tensora/nn/linear.h"
#include "tensora/ops.h"

namespace torch::nn {

// ---- Linear, Bilinear

LinearImpl::LinearImpl(const LinearOptions& options_given) : options(options_given) { reset(); }
void LinearImpl::reset() {
  const tensora::nn::Linear layer(options.in_features(), options.out_features(),
                                  {.bias = options.bias()});
  adopt(layer);
  weight = layer.weight;
  bias = layer.bias;
}
void LinearImpl::reset_parameters() {
  refill(
      tensora::nn::Linear(options.in_features(), options.out_features(), {.bias = options.bias()}));
}
void LinearImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Linear(in_features=" << options.in_features()
         << ", out_features=" << options.out_features() << ", bias=" << options.bias() << ")";
}
Tensor LinearImpl::forward(const Tensor& input) { return tensora::linear(input, weight, bias); }

std::shared_ptr<LinearImpl> LinearImpl::over(const tensora::nn::Module& layer,
                                             const LinearOptions& options) {
  const auto& linear = dynamic_cast<const tensora::nn::Linear&>(layer);
  auto result = std::make_shared<LinearImpl>(options);
  result->adopt(linear);
  result->weight = linear.weight;
  result->bias = linear.bias;
  return result;
}

BilinearImpl::BilinearImpl(const BilinearOptions& options_given) : options(options_given) {
  reset();
}
void BilinearImpl::reset() {
  const tensora::nn::Bilinear layer(options.in1_features(), options.in2_features(),
                                    options.out_features(), {.bias = options.bias()});
  adopt(layer);
  weight = layer.weight;
  bias = layer.bias;
}
void BilinearImpl::reset_parameters() {
  refill(tensora::nn::Bilinear(options.in1_features(), options.in2_features(),
                               options.out_features(), {.bias = options.bias()}));
}
void BilinearImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Bilinear(in1_features=" << options.in1_features()
         << ", in2_features=" << options.in2_features()
         << ", out_features=" << options.out_features() << ", bias=" << options.bias() << ")";
}
Tensor BilinearImpl::forward(const Tensor& input1, const Tensor& input2) {
  return tensora::bilinear(input1, input2, weight, bias);
}

// ---- Unflatten, PReLU, Upsample

UnflattenImpl::UnflattenImpl(UnflattenOptions options_given) : options(std::move(options_given)) {}
void UnflattenImpl::reset() {}
void UnflattenImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Unflatten(dim=" << options.dim() << ", unflattened_size={";
  for (size_t i = 0; i < options.sizes().size(); ++i)
    stream << (i ? ", " : "") << options.sizes()[i];
  stream << "})";
}
Tensor UnflattenImpl::forward(const Tensor& input) {
  return input.unflatten(options.dim(), options.sizes());
}

PReLUImpl::PReLUImpl(const PReLUOptions& options_given) : options(options_given) { reset(); }
void PReLUImpl::reset() {
  const tensora::nn::PReLU layer(
      {.num_parameters = options.num_parameters(), .init = options.init()});
  adopt(layer);
  weight = layer.weight;
}
void PReLUImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::PReLU(num_parameters=" << options.num_parameters() << ")";
}
Tensor PReLUImpl::forward(const Tensor& input) { return tensora::prelu(input, weight); }

UpsampleImpl::UpsampleImpl(const UpsampleOptions& options_given) : options(options_given) {}
void UpsampleImpl::reset() {}
void UpsampleImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Upsample(";
  if (options.scale_factor())
    stream << "scale_factor=" << ArrayRef<double>(*options.scale_factor());
  else
    stream << "size=" << ArrayRef<int64_t>(*options.size());
  stream << ", mode=" << options.mode() << ")";
}
Tensor UpsampleImpl::forward(const Tensor& input) {
  return functional::interpolate(input, functional::InterpolateFuncOptions()
                                            .size(options.size())
                                            .scale_factor(options.scale_factor())
                                            .mode(options.mode())
                                            .align_corners(options.align_corners()));
}

// ---- norms

LayerNormImpl::LayerNormImpl(LayerNormOptions options_given) : options(std::move(options_given)) {
  reset();
}
void LayerNormImpl::reset() {
  const tensora::nn::LayerNorm layer(
      options.normalized_shape(),
      {.eps = options.eps(), .elementwise_affine = options.elementwise_affine()});
  adopt(layer);
  weight = layer.weight;
  bias = layer.bias;
}
void LayerNormImpl::reset_parameters() {
  if (options.elementwise_affine()) refill(tensora::nn::LayerNorm(options.normalized_shape()));
}
void LayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::LayerNorm("
         << ArrayRef<int64_t>(options.normalized_shape()) << ", eps=" << options.eps()
         << ", elementwise_affine=" << options.elementwise_affine() << ")";
}
Tensor LayerNormImpl::forward(const Tensor& input) {
  return tensora::layer_norm(input, options.normalized_shape(), weight, bias, options.eps());
}

GroupNormImpl::GroupNormImpl(const GroupNormOptions& options_given) : options(options_given) {
  reset();
}
void GroupNormImpl::reset() {
  const tensora::nn::GroupNorm layer(options.num_groups(), options.num_channels(),
                                     {.eps = options.eps(), .affine = options.affine()});
  adopt(layer);
  weight = layer.weight;
  bias = layer.bias;
}
void GroupNormImpl::reset_parameters() {
  if (options.affine())
    refill(tensora::nn::GroupNorm(options.num_groups(), options.num_channels()));
}
void GroupNormImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::GroupNorm(" << options.num_groups() << ", "
         << options.num_channels() << ", eps=" << options.eps() << ", affine=" << options.affine()
         << ")";
}
Tensor GroupNormImpl::forward(const Tensor& input) {
  return tensora::group_norm(input, options.num_groups(), weight, bias, options.eps());
}

namespace detail {

namespace {

template <class Layer>
Layer make_norm(const BatchNormOptions& options) {
  return Layer(options.num_features(), {.eps = options.eps(),
                                        .momentum = options.momentum(),
                                        .affine = options.affine(),
                                        .track_running_stats = options.track_running_stats()});
}
template <class Layer>
Layer make_norm(const InstanceNormOptions& options) {
  return Layer(options.num_features(), {.eps = options.eps(),
                                        .momentum = options.momentum(),
                                        .affine = options.affine(),
                                        .track_running_stats = options.track_running_stats()});
}
double number(double value) { return value; }
double number(std::optional<double> value) { return value.value_or(0.0); }

}  // namespace

template <class Derived, class Options, class Layer>
void NormImpl<Derived, Options, Layer>::reset() {
  layer_.emplace(make_norm<Layer>(options));
  this->adopt(*layer_);
  weight = layer_->weight;
  bias = layer_->bias;
  running_mean = layer_->running_mean;
  running_var = layer_->running_var;
  num_batches_tracked = layer_->num_batches_tracked;
}

template <class Derived, class Options, class Layer>
void NormImpl<Derived, Options, Layer>::reset_running_stats() {
  layer_->reset_running_stats();
}

template <class Derived, class Options, class Layer>
void NormImpl<Derived, Options, Layer>::reset_parameters() {
  layer_->reset_parameters();
}

template <class Derived, class Options, class Layer>
void NormImpl<Derived, Options, Layer>::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::" << layer_->name() << "(" << options.num_features()
         << ", eps=" << options.eps() << ", momentum=" << number(options.momentum())
         << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats() << ")";
}

template <class Derived, class Options, class Layer>
Tensor NormImpl<Derived, Options, Layer>::forward(const Tensor& input) {
  const bool same = weight.is_same(layer_->weight) && bias.is_same(layer_->bias) &&
                    running_mean.is_same(layer_->running_mean) &&
                    running_var.is_same(layer_->running_var);
  if (same) return layer_->forward(input);
  // The user's own tensors.
  const bool by_batch = this->is_training() || !running_mean.defined();
  if constexpr (std::same_as<Options, BatchNormOptions>)
    return tensora::batch_norm(input, running_mean, running_var, weight, bias, by_batch,
                               number(options.momentum()), options.eps());
  else
    return tensora::instance_norm(input, running_mean, running_var, weight, bias, by_batch,
                                  options.momentum(), options.eps());
}

template class NormImpl<BatchNorm1dImpl, BatchNormOptions, tensora::nn::BatchNorm1d>;
template class NormImpl<BatchNorm2dImpl, BatchNormOptions, tensora::nn::BatchNorm2d>;
template class NormImpl<BatchNorm3dImpl, BatchNormOptions, tensora::nn::BatchNorm3d>;
template class NormImpl<InstanceNorm1dImpl, InstanceNormOptions, tensora::nn::InstanceNorm1d>;
template class NormImpl<InstanceNorm2dImpl, InstanceNormOptions, tensora::nn::InstanceNorm2d>;
template class NormImpl<InstanceNorm3dImpl, InstanceNormOptions, tensora::nn::InstanceNorm3d>;

}  // namespace detail

// ---- embeddings

namespace {

template <class Options>
void print_embedding(std::ostream& stream, const Options& options) {
  stream << std::boolalpha << "(num_embeddings=" << options.num_embeddings()
         << ", embedding_dim=" << options.embedding_dim();
  if constexpr (std::same_as<Options, EmbeddingOptions>)
    if (options.padding_idx()) stream << ", padding_idx=" << *options.padding_idx();
  if (options.max_norm()) stream << ", max_norm=" << *options.max_norm();
  if (options.norm_type() != 2) stream << ", norm_type=" << options.norm_type();
  if (options.scale_grad_by_freq()) stream << ", scale_grad_by_freq=true";
  if (options.sparse()) stream << ", sparse=true";
}

void check_table(const Tensor& table, int64_t rows, int64_t columns) {
  tensora::check(table.sizes() == tensora::Shape{rows, columns},
                 "Shape of _weight does not match num_embeddings and embedding_dim");
}

}  // namespace

EmbeddingImpl::EmbeddingImpl(EmbeddingOptions options_given) : options(std::move(options_given)) {
  if (auto& index = options.padding_idx()) {
    const int64_t rows = options.num_embeddings();
    tensora::check(*index < rows && *index >= -rows, "Padding_idx must be within num_embeddings");
    if (*index < 0) *index += rows;
  }
  reset();
}
void EmbeddingImpl::reset() {
  if (options._weight().defined()) {
    check_table(options._weight(), options.num_embeddings(), options.embedding_dim());
    weight = register_parameter("weight", options._weight());
    return;
  }
  const tensora::nn::Embedding layer(options.num_embeddings(), options.embedding_dim(),
                                     {.padding_idx = options.padding_idx()});
  adopt(layer);
  weight = layer.weight;
}
void EmbeddingImpl::reset_parameters() {
  refill(tensora::nn::Embedding(options.num_embeddings(), options.embedding_dim(),
                                {.padding_idx = options.padding_idx()}));
}
void EmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::Embedding";
  print_embedding(stream, options);
  stream << ")";
}
Tensor EmbeddingImpl::forward(const Tensor& indices) {
  return tensora::embedding(indices, weight, options.padding_idx(), options.max_norm(),
                            options.norm_type(), options.scale_grad_by_freq(), options.sparse());
}

Embedding Embedding::from_pretrained(const Tensor& embeddings,
                                     const EmbeddingFromPretrainedOptions& options) {
  tensora::check(embeddings.dim() == 2, "Embeddings parameter is expected to be 2-dimensional");
  Embedding result(EmbeddingOptions(embeddings.size(0), embeddings.size(1))
                       ._weight(embeddings)
                       .padding_idx(options.padding_idx())
                       .max_norm(options.max_norm())
                       .norm_type(options.norm_type())
                       .scale_grad_by_freq(options.scale_grad_by_freq())
                       .sparse(options.sparse()));
  result->weight.set_requires_grad(!options.freeze());
  return result;
}

EmbeddingBagImpl::EmbeddingBagImpl(EmbeddingBagOptions options_given)
    : options(std::move(options_given)) {
  reset();
}
void EmbeddingBagImpl::reset() {
  if (options._weight().defined()) {
    check_table(options._weight(), options.num_embeddings(), options.embedding_dim());
    weight = register_parameter("weight", options._weight());
    return;
  }
  const tensora::nn::EmbeddingBag layer(options.num_embeddings(), options.embedding_dim(),
                                        {.padding_idx = options.padding_idx()});
  adopt(layer);
  weight = layer.weight;
}
void EmbeddingBagImpl::reset_parameters() {
  refill(tensora::nn::EmbeddingBag(options.num_embeddings(), options.embedding_dim(),
                                   {.padding_idx = options.padding_idx()}));
}
void EmbeddingBagImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::EmbeddingBag";
  print_embedding(stream, options);
  if (options.mode() != Choice(kMean)) stream << ", mode=" << options.mode();
  if (options.include_last_offset()) stream << ", include_last_offset=true";
  if (options.padding_idx()) stream << ", padding_idx=" << *options.padding_idx();
  stream << ")";
}
Tensor EmbeddingBagImpl::forward(const Tensor& input, const Tensor& offsets,
                                 const Tensor& per_sample_weights) {
  return tensora::embedding_bag(input, weight, offsets, options.max_norm(), options.norm_type(),
                                options.scale_grad_by_freq(), options.mode().text, options.sparse(),
                                per_sample_weights, options.include_last_offset(),
                                options.padding_idx());
}

EmbeddingBag EmbeddingBag::from_pretrained(const Tensor& embeddings,
                                           const EmbeddingBagFromPretrainedOptions& options) {
  tensora::check(embeddings.dim() == 2, "Embeddings parameter is expected to be 2-dimensional");
  EmbeddingBag result(EmbeddingBagOptions(embeddings.size(0), embeddings.size(1))
                          ._weight(embeddings)
                          .max_norm(options.max_norm())
                          .norm_type(options.norm_type())
                          .scale_grad_by_freq(options.scale_grad_by_freq())
                          .mode(options.mode())
                          .sparse(options.sparse())
                          .include_last_offset(options.include_last_offset())
                          .padding_idx(options.padding_idx()));
  result->weight.set_requires_grad(!options.freeze());
  return result;
}

}  // namespace torch::nn

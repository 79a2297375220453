#pragma once

// Layers with parameters. Each makes its parameters by the layer of Tensora, whose names and first
// values they have, and computes with the tensors that are its members: `fc->weight = w` counts.

#include "tensora/libtorch/nn/functional.h"
#include "tensora/libtorch/nn/module.h"
#include "tensora/nn/batch_norm.h"
#include "tensora/nn/instance_norm.h"

namespace torch::nn {

class LinearImpl : public Cloneable<LinearImpl> {
 public:
  LinearImpl(int64_t in_features, int64_t out_features)
      : LinearImpl(LinearOptions(in_features, out_features)) {}
  explicit LinearImpl(const LinearOptions& options_given);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  /// A handle to a layer of Tensora.
  static std::shared_ptr<LinearImpl> over(const tensora::nn::Module& layer,
                                          const LinearOptions& options);

  LinearOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(Linear);

class BilinearImpl : public Cloneable<BilinearImpl> {
 public:
  BilinearImpl(int64_t in1_features, int64_t in2_features, int64_t out_features)
      : BilinearImpl(BilinearOptions(in1_features, in2_features, out_features)) {}
  explicit BilinearImpl(const BilinearOptions& options_given);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input1, const Tensor& input2);

  BilinearOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(Bilinear);

class UnflattenImpl : public Cloneable<UnflattenImpl> {
 public:
  UnflattenImpl(int64_t dim, std::vector<int64_t> sizes)
      : UnflattenImpl(UnflattenOptions(dim, std::move(sizes))) {}
  explicit UnflattenImpl(UnflattenOptions options_given);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  UnflattenOptions options;
};
TORCH_MODULE(Unflatten);

class PReLUImpl : public Cloneable<PReLUImpl> {
 public:
  explicit PReLUImpl(const PReLUOptions& options_given = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  PReLUOptions options;
  Tensor weight;
};
TORCH_MODULE(PReLU);

class UpsampleImpl : public Cloneable<UpsampleImpl> {
 public:
  explicit UpsampleImpl(const UpsampleOptions& options_given = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  UpsampleOptions options;
};
TORCH_MODULE(Upsample);

namespace detail {

/// What the norms with running statistics consist of.
template <class Derived, class Options, class Layer>
class NormImpl : public Cloneable<Derived> {
 public:
  explicit NormImpl(const Options& options_given) : options(options_given) { NormImpl::reset(); }
  void reset() override;
  void reset_running_stats();
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  Options options;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  std::optional<Layer> layer_;
};

}  // namespace detail

class BatchNorm1dImpl
    : public detail::NormImpl<BatchNorm1dImpl, BatchNormOptions, tensora::nn::BatchNorm1d> {
 public:
  using NormImpl::NormImpl;
};
TORCH_MODULE(BatchNorm1d);
class BatchNorm2dImpl
    : public detail::NormImpl<BatchNorm2dImpl, BatchNormOptions, tensora::nn::BatchNorm2d> {
 public:
  using NormImpl::NormImpl;
};
TORCH_MODULE(BatchNorm2d);
class BatchNorm3dImpl
    : public detail::NormImpl<BatchNorm3dImpl, BatchNormOptions, tensora::nn::BatchNorm3d> {
 public:
  using NormImpl::NormImpl;
};
TORCH_MODULE(BatchNorm3d);
class InstanceNorm1dImpl : public detail::NormImpl<InstanceNorm1dImpl, InstanceNormOptions,
                                                   tensora::nn::InstanceNorm1d> {
 public:
  using NormImpl::NormImpl;
};
TORCH_MODULE(InstanceNorm1d);
class InstanceNorm2dImpl : public detail::NormImpl<InstanceNorm2dImpl, InstanceNormOptions,
                                                   tensora::nn::InstanceNorm2d> {
 public:
  using NormImpl::NormImpl;
};
TORCH_MODULE(InstanceNorm2d);
class InstanceNorm3dImpl : public detail::NormImpl<InstanceNorm3dImpl, InstanceNormOptions,
                                                   tensora::nn::InstanceNorm3d> {
 public:
  using NormImpl::NormImpl;
};
TORCH_MODULE(InstanceNorm3d);

namespace detail {
extern template class NormImpl<BatchNorm1dImpl, BatchNormOptions, tensora::nn::BatchNorm1d>;
extern template class NormImpl<BatchNorm2dImpl, BatchNormOptions, tensora::nn::BatchNorm2d>;
extern template class NormImpl<BatchNorm3dImpl, BatchNormOptions, tensora::nn::BatchNorm3d>;
extern template class NormImpl<InstanceNorm1dImpl, InstanceNormOptions,
                               tensora::nn::InstanceNorm1d>;
extern template class NormImpl<InstanceNorm2dImpl, InstanceNormOptions,
                               tensora::nn::InstanceNorm2d>;
extern template class NormImpl<InstanceNorm3dImpl, InstanceNormOptions,
                               tensora::nn::InstanceNorm3d>;
}  // namespace detail

class LayerNormImpl : public Cloneable<LayerNormImpl> {
 public:
  explicit LayerNormImpl(std::vector<int64_t> normalized_shape)
      : LayerNormImpl(LayerNormOptions(std::move(normalized_shape))) {}
  explicit LayerNormImpl(LayerNormOptions options_given);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  LayerNormOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(LayerNorm);

class GroupNormImpl : public Cloneable<GroupNormImpl> {
 public:
  GroupNormImpl(int64_t num_groups, int64_t num_channels)
      : GroupNormImpl(GroupNormOptions(num_groups, num_channels)) {}
  explicit GroupNormImpl(const GroupNormOptions& options_given);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  GroupNormOptions options;
  Tensor weight, bias;
};
TORCH_MODULE(GroupNorm);

class EmbeddingImpl : public Cloneable<EmbeddingImpl> {
 public:
  EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim)
      : EmbeddingImpl(EmbeddingOptions(num_embeddings, embedding_dim)) {}
  explicit EmbeddingImpl(EmbeddingOptions options_given);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& indices);

  EmbeddingOptions options;
  Tensor weight;
};
class Embedding : public ModuleHolder<EmbeddingImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  static Embedding from_pretrained(const Tensor& embeddings,
                                   const EmbeddingFromPretrainedOptions& options = {});
};

class EmbeddingBagImpl : public Cloneable<EmbeddingBagImpl> {
 public:
  EmbeddingBagImpl(int64_t num_embeddings, int64_t embedding_dim)
      : EmbeddingBagImpl(EmbeddingBagOptions(num_embeddings, embedding_dim)) {}
  explicit EmbeddingBagImpl(EmbeddingBagOptions options_given);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input, const Tensor& offsets = {},
                 const Tensor& per_sample_weights = {});
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())}, {2, AnyValue(Tensor())})

 public:
  EmbeddingBagOptions options;
  Tensor weight;
};
class EmbeddingBag : public ModuleHolder<EmbeddingBagImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  static EmbeddingBag from_pretrained(const Tensor& embeddings,
                                      const EmbeddingBagFromPretrainedOptions& options = {});
};

}  // namespace torch::nn

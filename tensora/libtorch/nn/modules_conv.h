#pragma once

// Convolutions and transposed convolutions.

#include "tensora/libtorch/nn/functional.h"
#include "tensora/libtorch/nn/module.h"
#include "tensora/nn/conv_transpose.h"

namespace torch::nn {

template <size_t D, class Derived>
class ConvNdImpl : public Cloneable<Derived> {
 public:
  explicit ConvNdImpl(const ConvOptions<D>& options_given) : options(options_given) {
    ConvNdImpl::reset();
  }
  ConvNdImpl(int64_t in_channels, int64_t out_channels, ExpandingArray<D> kernel_size)
      : ConvNdImpl(ConvOptions<D>(in_channels, out_channels, kernel_size)) {}
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ConvOptions<D> options;
  Tensor weight, bias;
};

class Conv1dImpl : public ConvNdImpl<1, Conv1dImpl> {
 public:
  using ConvNdImpl::ConvNdImpl;
};
TORCH_MODULE(Conv1d);
class Conv2dImpl : public ConvNdImpl<2, Conv2dImpl> {
 public:
  using ConvNdImpl::ConvNdImpl;
};
TORCH_MODULE(Conv2d);
class Conv3dImpl : public ConvNdImpl<3, Conv3dImpl> {
 public:
  using ConvNdImpl::ConvNdImpl;
};
TORCH_MODULE(Conv3d);

template <size_t D, class Derived>
class ConvTransposeNdImpl : public Cloneable<Derived> {
 public:
  explicit ConvTransposeNdImpl(const ConvTransposeOptions<D>& options_given)
      : options(options_given) {
    ConvTransposeNdImpl::reset();
  }
  ConvTransposeNdImpl(int64_t in_channels, int64_t out_channels, ExpandingArray<D> kernel_size)
      : ConvTransposeNdImpl(ConvTransposeOptions<D>(in_channels, out_channels, kernel_size)) {}
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input, const std::optional<tensora::Shape>& output_size = {});
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(std::optional<tensora::Shape>())})

 public:
  ConvTransposeOptions<D> options;
  Tensor weight, bias;

 private:
  std::optional<tensora::nn::ConvTranspose<int{D}>> layer_;
};

class ConvTranspose1dImpl : public ConvTransposeNdImpl<1, ConvTranspose1dImpl> {
 public:
  using ConvTransposeNdImpl::ConvTransposeNdImpl;
};
TORCH_MODULE(ConvTranspose1d);
class ConvTranspose2dImpl : public ConvTransposeNdImpl<2, ConvTranspose2dImpl> {
 public:
  using ConvTransposeNdImpl::ConvTransposeNdImpl;
};
TORCH_MODULE(ConvTranspose2d);
class ConvTranspose3dImpl : public ConvTransposeNdImpl<3, ConvTranspose3dImpl> {
 public:
  using ConvTransposeNdImpl::ConvTransposeNdImpl;
};
TORCH_MODULE(ConvTranspose3d);

extern template class ConvNdImpl<1, Conv1dImpl>;
extern template class ConvNdImpl<2, Conv2dImpl>;
extern template class ConvNdImpl<3, Conv3dImpl>;
extern template class ConvTransposeNdImpl<1, ConvTranspose1dImpl>;
extern template class ConvTransposeNdImpl<2, ConvTranspose2dImpl>;
extern template class ConvTransposeNdImpl<3, ConvTranspose3dImpl>;

}  // namespace torch::nn

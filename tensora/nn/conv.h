#pragma once

#include "tensora/nn/layer.h"
#include "tensora/ops/conv/conv.h"

namespace tensora::nn {

/// One number stands for all spatial dims: `nn::Conv2d(3, 64, 3, {.stride = 2, .padding = 1})`.
struct ConvOptions {
  Shape stride = 1;
  ConvPadding padding = 0;  // a number, a list, "same" or "valid"
  Shape dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  std::string_view padding_mode = "zeros";  // or "reflect", "replicate", "circular"
};

/// A convolution over `Dims` spatial dims. Weight and bias start uniform in ±1/√(inputs of an
/// output). Use it as Conv1d, Conv2d or Conv3d.
template <int Dims>
class Conv : public Layer<Conv<Dims>> {
 public:
  Conv(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
       const ConvOptions& options = {});

  Tensor forward(const Tensor& input /* N? in L… */) const;
  void reset_parameters();
  std::string name() const override;
  std::string extra_repr() const override;

  int64_t in_channels, out_channels;
  Shape kernel_size;
  ConvOptions options;  // with one number per dim
  Parameter weight;     // out in/groups kernel…
  Parameter bias;       // out; undefined without one

 private:
  // What is put before and after each dim, the last dim first, as `pad` takes it.
  std::vector<int64_t> pads_;
};

using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

extern template class Conv<1>;
extern template class Conv<2>;
extern template class Conv<3>;

}  // namespace tensora::nn

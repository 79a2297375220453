#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

/// One number stands for all spatial dims.
struct ConvTransposeOptions {
  Shape stride = 1;
  Shape padding = 0;
  Shape output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Shape dilation = 1;
};

/// The transposed convolution over `Dims` spatial dims, which makes images larger by `stride`.
/// Weight and bias start as those of Conv. Use it as ConvTranspose1d, 2d or 3d.
template <int Dims>
class ConvTranspose : public Layer<ConvTranspose<Dims>> {
 public:
  ConvTranspose(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
                const ConvTransposeOptions& options = {});

  /// `output_size`, of the spatial dims or all, chooses among the sizes that a stride leaves open.
  Tensor forward(const Tensor& input /* N? in L… */, const Shape& output_size = {}) const;
  void reset_parameters();
  std::string name() const override;
  std::string extra_repr() const override;

  int64_t in_channels, out_channels;
  Shape kernel_size;
  ConvTransposeOptions options;  // with one number per dim
  Parameter weight;              // in out/groups kernel…
  Parameter bias;                // out; undefined without one

 private:
  Shape output_padding_for(const Tensor& input, Shape output_size) const;
};

using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

extern template class ConvTranspose<1>;
extern template class ConvTranspose<2>;
extern template class ConvTranspose<3>;

}  // namespace tensora::nn

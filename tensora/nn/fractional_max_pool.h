#pragma once

#include "tensora/nn/layer.h"
#include "tensora/nn/upsample.h"

namespace tensora::nn {

/// One of the first two is given.
struct FractionalMaxPoolOptions {
  std::optional<Shape> output_size = {};
  std::optional<ScaleFactor> output_ratio = {};  // of the input's size, between 0 and 1
  Tensor random_samples = {};                    // N C Dims in [0, 1); drawn unless given
};

/// The largest elements of windows that lie at pseudo-random steps, so that any output size is
/// possible. Use it as FractionalMaxPool2d or FractionalMaxPool3d.
template <int Dims>
class FractionalMaxPool : public Layer<FractionalMaxPool<Dims>> {
 public:
  FractionalMaxPool(const Shape& kernel_size, const FractionalMaxPoolOptions& options);
  Tensor forward(const Tensor& input /* N? C L… */) const;
  /// The result and where its elements stand in the flattened spatial dims.
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input) const;
  std::string name() const override;

  Shape kernel_size;
  FractionalMaxPoolOptions options;
  Buffer random_samples;

 private:
  Shape output_size_for(const Tensor& input) const;
};

using FractionalMaxPool2d = FractionalMaxPool<2>;
using FractionalMaxPool3d = FractionalMaxPool<3>;

extern template class FractionalMaxPool<2>;
extern template class FractionalMaxPool<3>;

}  // namespace tensora::nn

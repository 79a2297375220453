#pragma once

#include "tensora/nn/norm_base.h"

namespace tensora::nn {

/// Each channel (dim 1) minus its mean over its deviation, times weight, plus bias; in training
/// those of the batch, in eval the running ones. Use it as BatchNorm1d ([N, C] or [N, C, L]),
/// BatchNorm2d or BatchNorm3d.
template <int Dims>
class BatchNorm : public NormBase<BatchNorm<Dims>> {
 public:
  explicit BatchNorm(int64_t num_features, const BatchNormOptions& options = {});
  Tensor forward(const Tensor& input) const;
  /// relu(norm(input) + residual), in one pass where the device has a kernel for that; `residual`
  /// may be undefined.
  Tensor forward_relu(const Tensor& input, const Tensor& residual = {}) const;
  std::string name() const override;
};

using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;
using BatchNorm3d = BatchNorm<3>;

extern template class NormBase<BatchNorm<1>>;
extern template class NormBase<BatchNorm<2>>;
extern template class NormBase<BatchNorm<3>>;
extern template class BatchNorm<1>;
extern template class BatchNorm<2>;
extern template class BatchNorm<3>;

}  // namespace tensora::nn

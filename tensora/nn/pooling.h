#pragma once

#include "tensora/nn/layer.h"

// Pools over `Dims` spatial dims of [N, C, L…] or [C, L…]. Use them as MaxPool2d, AvgPool1d, …. One
// number stands for all dims; a stride that is not given is the kernel's size.

namespace tensora::nn {

struct MaxPoolOptions {
  Shape stride = {};
  Shape padding = 0;
  Shape dilation = 1;
  bool ceil_mode = false;
};

/// The largest element of each window.
template <int Dims>
class MaxPool : public Layer<MaxPool<Dims>> {
 public:
  explicit MaxPool(const Shape& kernel_size, const MaxPoolOptions& options = {});
  Tensor forward(const Tensor& input) const;
  /// The result and where its elements stand in the flattened spatial dims, for MaxUnpool.
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input) const;
  std::string name() const override;
  std::string extra_repr() const override;

  Shape kernel_size;
  MaxPoolOptions options;
};

struct MaxUnpoolOptions {
  Shape stride = {};
  Shape padding = 0;
};

/// Puts each element where MaxPool found it, among zeros.
template <int Dims>
class MaxUnpool : public Layer<MaxUnpool<Dims>> {
 public:
  explicit MaxUnpool(const Shape& kernel_size, const MaxUnpoolOptions& options = {});
  Tensor forward(const Tensor& input, const Tensor& indices, const Shape& output_size = {}) const;
  std::string name() const override;
  std::string extra_repr() const override;

  Shape kernel_size;
  MaxUnpoolOptions options;
};

struct AvgPoolOptions {
  Shape stride = {};
  Shape padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::optional<int64_t> divisor_override = {};  // AvgPool1d has none
};

/// The mean of each window.
template <int Dims>
class AvgPool : public Layer<AvgPool<Dims>> {
 public:
  explicit AvgPool(const Shape& kernel_size, const AvgPoolOptions& options = {});
  Tensor forward(const Tensor& input) const;
  std::string name() const override;
  std::string extra_repr() const override;

  Shape kernel_size;
  AvgPoolOptions options;
};

struct LPPoolOptions {
  Shape stride = {};
  bool ceil_mode = false;
};

/// The p-norm of each window.
template <int Dims>
class LPPool : public Layer<LPPool<Dims>> {
 public:
  LPPool(double norm_type, const Shape& kernel_size, const LPPoolOptions& options = {});
  Tensor forward(const Tensor& input) const;
  std::string name() const override;
  std::string extra_repr() const override;

  double norm_type;
  Shape kernel_size;
  LPPoolOptions options;
};

/// The largest element of each of `output_size` parts of nearly equal length; -1 keeps a size.
template <int Dims>
class AdaptiveMaxPool : public Layer<AdaptiveMaxPool<Dims>> {
 public:
  explicit AdaptiveMaxPool(const Shape& output_size);
  Tensor forward(const Tensor& input) const;
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input) const;
  std::string name() const override;
  std::string extra_repr() const override;

  Shape output_size;
};

/// The mean of each of `output_size` parts of nearly equal length; -1 keeps a size.
template <int Dims>
class AdaptiveAvgPool : public Layer<AdaptiveAvgPool<Dims>> {
 public:
  explicit AdaptiveAvgPool(const Shape& output_size);
  Tensor forward(const Tensor& input) const;
  std::string name() const override;
  std::string extra_repr() const override;

  Shape output_size;
};

using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;
using MaxUnpool1d = MaxUnpool<1>;
using MaxUnpool2d = MaxUnpool<2>;
using MaxUnpool3d = MaxUnpool<3>;
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;
using LPPool1d = LPPool<1>;
using LPPool2d = LPPool<2>;
using LPPool3d = LPPool<3>;
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

extern template class MaxPool<1>;
extern template class MaxPool<2>;
extern template class MaxPool<3>;
extern template class MaxUnpool<1>;
extern template class MaxUnpool<2>;
extern template class MaxUnpool<3>;
extern template class AvgPool<1>;
extern template class AvgPool<2>;
extern template class AvgPool<3>;
extern template class LPPool<1>;
extern template class LPPool<2>;
extern template class LPPool<3>;
extern template class AdaptiveMaxPool<1>;
extern template class AdaptiveMaxPool<2>;
extern template class AdaptiveMaxPool<3>;
extern template class AdaptiveAvgPool<1>;
extern template class AdaptiveAvgPool<2>;
extern template class AdaptiveAvgPool<3>;

}  // namespace tensora::nn

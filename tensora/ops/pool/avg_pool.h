#pragma once

#include "tensora/ops/pool/pool_common.h"

namespace tensora {

struct AvgPoolAttrs : PoolAttrs {
  bool count_include_pad = true;
  std::optional<int64_t> divisor_override = {};

  pool::Divisor divisor() const { return {count_include_pad, divisor_override.value_or(0)}; }
};
extern OpDef<AvgPoolAttrs> avg_pool_op;

/// Every gradient divided among the positions of its window, in zeros of shape `sizes`.
struct AvgPoolBackwardAttrs : AvgPoolAttrs {
  Shape sizes;
  bool channels_last = false;
};
extern OpDef<AvgPoolBackwardAttrs> avg_pool_backward_op;

/// The mean of each window. The padding counts as zeros, unless `count_include_pad` is false; or
/// the sum is divided by `divisor_override`. Shapes and layouts as for max_pool2d.
Tensor avg_pool1d(const Tensor& input, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, bool ceil_mode = false, bool count_include_pad = true);
Tensor avg_pool2d(const Tensor& input, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, bool ceil_mode = false, bool count_include_pad = true,
                  std::optional<int64_t> divisor_override = {});
Tensor avg_pool3d(const Tensor& input, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, bool ceil_mode = false, bool count_include_pad = true,
                  std::optional<int64_t> divisor_override = {});

/// The means of `output_size` parts of nearly equal length; -1 keeps a size.
Tensor adaptive_avg_pool1d(const Tensor& input, const Shape& output_size);
Tensor adaptive_avg_pool2d(const Tensor& input, const Shape& output_size);
Tensor adaptive_avg_pool3d(const Tensor& input, const Shape& output_size);

/// The p-norm of each window, (sum of x^p)^(1/p), with p = `norm_type`. The sums of x^p are those
/// of the signed powers, as in PyTorch; a negative one counts with its sign.
Tensor lp_pool1d(const Tensor& input, double norm_type, const Shape& kernel_size,
                 const Shape& stride = {}, bool ceil_mode = false);
Tensor lp_pool2d(const Tensor& input, double norm_type, const Shape& kernel_size,
                 const Shape& stride = {}, bool ceil_mode = false);
Tensor lp_pool3d(const Tensor& input, double norm_type, const Shape& kernel_size,
                 const Shape& stride = {}, bool ceil_mode = false);

}  // namespace tensora

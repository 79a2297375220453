#pragma once

#include "tensora/ops/pool/pool_common.h"

namespace tensora {

/// Two outputs, the largest elements and their positions; only the first without `return_indices`,
/// and then no gradient.
struct MaxPoolAttrs : PoolAttrs {
  bool return_indices = true;
};
extern OpDef<MaxPoolAttrs> max_pool_op;

/// Zeros of shape `sizes` with every gradient added at the position it came from.
struct MaxPoolBackwardAttrs : PoolAttrs {
  Shape sizes;
  bool channels_last = false;
};
extern OpDef<MaxPoolBackwardAttrs> max_pool_backward_op;

/// The largest element of each window; NaN if there is one. The input is [N, C, L], [N, C, H, W] or
/// [N, C, D, H, W], or the same without the batch. Without a stride, windows do not overlap.
/// Numbers may be given once for all dims. A result of a channels-last input is channels-last.
Tensor max_pool1d(const Tensor& input, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, const Shape& dilation = 1, bool ceil_mode = false);
Tensor max_pool2d(const Tensor& input, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, const Shape& dilation = 1, bool ceil_mode = false);
Tensor max_pool3d(const Tensor& input, const Shape& kernel_size, const Shape& stride = {},
                  const Shape& padding = 0, const Shape& dilation = 1, bool ceil_mode = false);
/// The same with the positions of the elements in the flattened pooled dims of the input.
std::tuple<Tensor, Tensor> max_pool1d_with_indices(const Tensor& input, const Shape& kernel_size,
                                                   const Shape& stride = {},
                                                   const Shape& padding = 0,
                                                   const Shape& dilation = 1,
                                                   bool ceil_mode = false);
std::tuple<Tensor, Tensor> max_pool2d_with_indices(const Tensor& input, const Shape& kernel_size,
                                                   const Shape& stride = {},
                                                   const Shape& padding = 0,
                                                   const Shape& dilation = 1,
                                                   bool ceil_mode = false);
std::tuple<Tensor, Tensor> max_pool3d_with_indices(const Tensor& input, const Shape& kernel_size,
                                                   const Shape& stride = {},
                                                   const Shape& padding = 0,
                                                   const Shape& dilation = 1,
                                                   bool ceil_mode = false);

/// The largest elements of `output_size` parts of nearly equal length; -1 keeps a size.
Tensor adaptive_max_pool1d(const Tensor& input, const Shape& output_size);
Tensor adaptive_max_pool2d(const Tensor& input, const Shape& output_size);
Tensor adaptive_max_pool3d(const Tensor& input, const Shape& output_size);
std::tuple<Tensor, Tensor> adaptive_max_pool1d_with_indices(const Tensor& input,
                                                            const Shape& output_size);
std::tuple<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& input,
                                                            const Shape& output_size);
std::tuple<Tensor, Tensor> adaptive_max_pool3d_with_indices(const Tensor& input,
                                                            const Shape& output_size);

/// Zeros with the elements of `input` at the positions that max_pool returned. `output_size` is
/// that of the pooled input where kernel, stride and padding do not determine it; with or without
/// the leading dims.
Tensor max_unpool1d(const Tensor& input, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride = {}, const Shape& padding = 0,
                    const Shape& output_size = {});
Tensor max_unpool2d(const Tensor& input, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride = {}, const Shape& padding = 0,
                    const Shape& output_size = {});
Tensor max_unpool3d(const Tensor& input, const Tensor& indices, const Shape& kernel_size,
                    const Shape& stride = {}, const Shape& padding = 0,
                    const Shape& output_size = {});

}  // namespace tensora

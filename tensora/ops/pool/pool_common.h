#pragma once

// Internal header: the attributes that the pooling ops share, and their rule.

#include "tensora/core/memory_format.h"
#include "tensora/dispatch/op_def.h"
#include "tensora/ops/pool/windows.h"

namespace tensora {

/// One entry for each pooled dim, of which there are one to three; they are the last dims of the
/// input. With an `output_size` pooling is adaptive, and the other fields are not used.
struct PoolAttrs {
  Shape kernel_size, stride, padding, dilation;
  bool ceil_mode = false;
  Shape output_size;

  int dims() const { return output_size.empty() ? kernel_size.size() : output_size.size(); }
};

namespace pool {

/// The windows over an input of these sizes, as many dims as the attributes have at its end.
Windows windows_of(const Shape& sizes, const PoolAttrs& attrs);
/// A view with batch, channel and three pooled dims.
View as_five_dims(const View& view, int pooled);
/// Whether the result gets that layout too: 4-D and 5-D tensors only, as in PyTorch.
inline bool keeps_channels_last(const Shape& sizes, const Strides& strides) {
  return sizes.size() >= 4 && is_channels_last(sizes, strides);
}
/// Strides of a dense tensor, with channels last or row-major.
inline Strides layout_strides(const Shape& sizes, bool channels_last) {
  return channels_last ? channels_last_strides(sizes) : contiguous_strides(sizes);
}
/// The same elements in that layout; for the definitions in other ops.
Tensor in_layout(const Tensor& x, bool channels_last);
/// The gradient of a result without elements, which may be huge in its other dims; undefined for
/// others.
Tensor gradient_of_none(const Tensor& grad, const Shape& input_sizes);
/// Checks input and attributes; the result's sizes.
Shape check_pool(const Infer& infer, const PoolAttrs& attrs);

/// A list for `dims` dims from one that may hold a single number for all of them.
Shape per_dim(const Shape& values, int dims, std::string_view op, std::string_view argument);
/// Attributes from PyTorch's arguments: a stride that is not given is the kernel's size.
PoolAttrs pool_attrs(std::string_view op, int dims, const Shape& kernel_size, const Shape& stride,
                     const Shape& padding, const Shape& dilation, bool ceil_mode);
/// Attributes of adaptive pooling: -1 keeps a size of the input.
PoolAttrs adaptive_attrs(std::string_view op, int dims, const Tensor& input,
                         const Shape& output_size);

/// For the definitions in other ops: the windows laid out as a last dim of the input [… out…
/// window], which of their positions are inside of the input, and the positions [out… window]. A
/// position outside repeats one inside.
std::array<Tensor, 3> unfold_windows(const Tensor& input, const PoolAttrs& attrs);

}  // namespace pool
}  // namespace tensora

#pragma once

#include "tensora/core/shape.h"

namespace tensora {

/// The order in which a dense tensor's elements lie in memory.
enum class MemoryFormat : uint8_t {
  contiguous,        // row-major
  channels_last,     // 4-D, N C H W: as N H W C lies when it is row-major
  channels_last_3d,  // 5-D, N C D H W: as N D H W C
  preserve,          // as the argument's
};

/// Strides of a dense tensor N C L… in which C is innermost and the other dims keep their order.
Strides channels_last_strides(const Shape& sizes);

/// Whether C is the innermost of N C L… in memory. Where sizes of 1 leave that open, the strides
/// decide by PyTorch's rule, so that an op gives its result the layout of its input.
bool is_channels_last(const Shape& sizes, const Strides& strides);

/// Whether a tensor's elements lie in this order without gaps; strides of dims of one element do
/// not matter. `preserve` is not a format to ask for.
bool has_format(const Shape& sizes, const Strides& strides, MemoryFormat format);

}  // namespace tensora

#pragma once

// Internal header
// The sizes of blocks over an image; shared by the rule and the kernels.

#include <array>

#include "tensora/ops/conv/convolution_geometry.h"
#include "tensora/ops/conv/im2col.h"

namespace tensora {

struct BlockAxis {
  int64_t image = 0, blocks = 0, kernel = 0, stride = 0, padding = 0, dilation = 0;
};
using BlockAxes = std::array<BlockAxis, 2>;

inline BlockAxes block_axes(const Shape& image, const Im2colAttrs& attrs) {
  BlockAxes axes;
  const auto pick = [](const Shape& values, int d) {
    return values.size() == 1 ? values[0] : values[d];
  };
  for (int d = 0; d < 2; ++d) {
    BlockAxis& a = axes[static_cast<size_t>(d)];
    a = {image[d],
         0,
         pick(attrs.kernel_size, d),
         pick(attrs.stride, d),
         pick(attrs.padding, d),
         pick(attrs.dilation, d)};
    const int64_t room = a.image + 2 * a.padding - a.dilation * (a.kernel - 1) - 1;
    a.blocks = room < 0 ? 0 : room / a.stride + 1;
  }
  return axes;
}

}  // namespace tensora

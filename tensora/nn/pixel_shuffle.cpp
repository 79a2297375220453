#include "tensora/nn/pixel_shuffle.h"

#include "tensora/ops/resample/pixel_shuffle.h"

namespace tensora::nn {

Tensor PixelShuffle::forward(const Tensor& input) const {
  return pixel_shuffle(input, upscale_factor);
}
std::string PixelShuffle::extra_repr() const { return concat("upscale_factor=", upscale_factor); }

Tensor PixelUnshuffle::forward(const Tensor& input) const {
  return pixel_unshuffle(input, downscale_factor);
}
std::string PixelUnshuffle::extra_repr() const {
  return concat("downscale_factor=", downscale_factor);
}

Tensor ChannelShuffle::forward(const Tensor& input) const { return channel_shuffle(input, groups); }
std::string ChannelShuffle::extra_repr() const { return concat("groups=", groups); }

}  // namespace tensora::nn

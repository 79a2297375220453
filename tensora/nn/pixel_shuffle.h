#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

/// [… C r² H W] to [… C Hr Wr]: each group of r² channels becomes an r x r block.
class PixelShuffle : public Layer<PixelShuffle> {
 public:
  explicit PixelShuffle(int64_t upscale_factor) : upscale_factor(upscale_factor) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  int64_t upscale_factor;
};

/// The reverse.
class PixelUnshuffle : public Layer<PixelUnshuffle> {
 public:
  explicit PixelUnshuffle(int64_t downscale_factor) : downscale_factor(downscale_factor) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  int64_t downscale_factor;
};

/// Deals the channels of [N, C, …] out to groups in turn.
class ChannelShuffle : public Layer<ChannelShuffle> {
 public:
  explicit ChannelShuffle(int64_t groups) : groups(groups) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  int64_t groups;
};

}  // namespace tensora::nn

#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// [… C r² H W] to [… C Hr Wr]: each group of r² channels becomes an r x r block of the image.
Tensor pixel_shuffle(const Tensor& input, int64_t upscale_factor);
/// The reverse.
Tensor pixel_unshuffle(const Tensor& input, int64_t downscale_factor);
/// Divides the channels of [N, C, …] into groups and deals them out in turn.
Tensor channel_shuffle(const Tensor& input, int64_t groups);

}  // namespace tensora

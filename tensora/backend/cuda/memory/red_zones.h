#pragma once

// Red zones: a debug mode of the allocator that finds writes beyond a tensor's memory. No CUDA
// header is needed.

#include <atomic>

namespace tensora::cuda {

// Note [Red zones]
// A tensor's neighbour in memory is another tensor, so a kernel that writes one element too far
// corrupts another tensor, and tools that detect out-of-bounds accesses see one large segment and
// find nothing wrong. With red zones on, each block has at least 512 bytes before and after it that
// are unused and hold a pattern; they are checked when the block is freed and whenever the host
// waits for the device, in checked mode (Note [Checked mode]) after each launch, so that the error
// names the op. The block itself is filled with ones, which are NaN for every float, so that a
// result element that no kernel wrote shows. Blocks of a graph being captured have no zones: a
// replay would write to them unchecked. Slow: every check waits for the device.

/// On initially if the environment says TENSORA_CUDA_RED_ZONES=1. Blocks that are live when it
/// changes stay as they are.
bool has_red_zones() noexcept;
void set_red_zones(bool on) noexcept;

/// Waits for the device and throws if a red zone of it was written to, now or in a block freed
/// since the last check. Nothing happens while red zones are off.
void check_red_zones(int device);

}  // namespace tensora::cuda

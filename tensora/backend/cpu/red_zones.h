#pragma once

// Red zones: a debug mode of the host's allocator that finds writes beyond a tensor's memory.

#include <atomic>
#include <cstddef>

namespace tensora::cpu {

// Note [Red zones on the host]
// As on CUDA (Note [Red zones]): with red zones on, each block lies between two runs of bytes that
// belong to nobody and hold a pattern. They are looked at when the block is freed and by
// check_red_zones. The block itself is filled with ones, which are NaN for every float, so that a
// result element that no kernel wrote shows. A sanitizer finds such writes too, but only beyond
// what the allocator asked the system for, which is rounded up, and only in a build of its own.

/// Off at start. Blocks that are live when it changes stay as they are.
bool has_red_zones() noexcept;
void set_red_zones(bool on) noexcept;
/// Throws if a red zone of a live block, or of one freed since the last look, was written to; each
/// damage is reported once. Names the block's size and the offset of the first damaged byte.
void check_red_zones();

// ---- for the allocator -----------------------------------------------------------------------

inline constexpr size_t kRedZone = 256;  // bytes on either side; a multiple of any alignment
/// How many live blocks have red zones: while there are none, a free need not ask.
extern std::atomic<size_t> surrounded_blocks;
extern std::atomic<bool> red_zones_wanted;

/// Makes the zones in a block of `bytes` + 2 * kRedZone; returns the tensor's part.
void* surround(void* block, size_t bytes);
/// Looks at the zones and forgets the block. False if it has none.
bool unsurround(void* inside) noexcept;

}  // namespace tensora::cpu

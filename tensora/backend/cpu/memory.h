#pragma once

#include "tensora/core/backend.h"

namespace tensora::cpu {

/// The host's allocator: freed blocks are kept by size, so that a tensor of a size seen before
/// costs no system call and no page fault. See Note [Pages are the cost]. Blocks up to 1 KiB come
/// from the pool of small objects: they count as allocated, reserved and as allocations, but not
/// against the limit, not as cache hits, and not in the peaks.
Allocator& host_allocator();

}  // namespace tensora::cpu

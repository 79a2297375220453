#pragma once

#include "tensora/core/backend.h"

namespace tensora::cpu {

/// The host's allocator: freed blocks are kept by size, so that a tensor of a size seen before
/// costs no system call and no page fault. See Note [Pages are the cost].
Allocator& host_allocator();

}  // namespace tensora::cpu

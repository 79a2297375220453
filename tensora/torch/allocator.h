#pragma once

#include <cstdint>

namespace tensora::torch {

// Note [One allocator for two libraries]
// LibTorch's allocator on the CPU asks the system for each tensor and gives its memory back at
// once. Tensora's keeps freed memory for the next step, counts what is in use, and obeys
// set_memory_limit. LibTorch can take its memory from there. It calls its allocators without a
// lock, and oneDNN frees what it has by whichever allocator is the current one: the choice
// therefore holds for the rest of the process, and blocks tell to whom they belong.

/// From now on LibTorch takes memory of the CPU from Tensora's allocator.
void share_allocator();
/// Bytes that LibTorch has taken from it; 0 where it does not.
int64_t shared_bytes();

}  // namespace tensora::torch

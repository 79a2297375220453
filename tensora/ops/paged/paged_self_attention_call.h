#pragma once

// Internal header
// One call of paged_self_attention as its CUDA kernel sees it.

#include "tensora/ops/paged/paged_attention_call.h"
#include "tensora/ops/paged/paged_store_call.h"

namespace tensora::cuda {

struct StepCall {
  PagedCall attention;  // without queries
  StoreCall store;      // without queries
  int stages;           // tiles of keys that a block holds
};

/// Queues the kernel, which is one for Hopper. float16 or bfloat16 throughout, head sizes 64 and
/// 128, at most 16 heads that share keys; block sizes are powers of two, qkv and the caches lie at
/// multiples of 16 bytes, and a multiple of 8 numbers of a head is turned.
void attend_one_step(std::string_view op, int device, const StepCall& call);

}  // namespace tensora::cuda

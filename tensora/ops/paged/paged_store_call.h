#pragma once

// Internal header
// One call of paged_store as its CUDA kernel sees it.

#include <string_view>

#include "tensora/backend/cuda/runtime/fault.h"
#include "tensora/core/dtype.h"

namespace tensora::cuda {

struct StoreCall {
  const char* qkv;
  char *query, *keys, *values;
  const long long *positions, *slots;
  const float* cos_sin;
  const void *q_norm, *k_norm;
  DType dtype, cache_dtype, q_norm_dtype, k_norm_dtype;
  int64_t tokens, places;
  int heads, kv_heads, size, turned, block_size;  // turned: how many numbers of a head
  float eps, unit_offset;
  bool in_halves;
  const char *op, *slot_sentence;
  Fault* fault;
  int64_t known_positions;
};

/// Queues the kernel.
void store_paged(std::string_view op, int device, const StoreCall& call);

}  // namespace tensora::cuda

#pragma once

// Internal header
// One call of paged_attention as the CUDA kernels see it.

#include <cstdint>
#include <string_view>

#include "tensora/core/dtype.h"

namespace tensora::cuda {

/// Queries of a sequence, in all heads that share keys, that are few: a tile of the tensor cores.
inline constexpr int kFewPagedRows = 16;

struct PagedCall {
  const char *query, *keys, *values;
  char* out;
  const int *starts, *lengths, *table;
  int64_t tokens;
  int sequences, heads, groups, size;
  int block_size, block_shift;  // shift: of a block size that is a power of two, or -1
  int blocks_per_sequence;
  int64_t blocks;             // of the cache
  int max_query, max_length;  // bounds
  DType dtype, cache_dtype;   // of queries and results; of the caches
  float scale;                // of the scores, to the base 2 unless there is a cap
  float softcap;              // 0: none
  int window;                 // 0: none
  /// Keys and values are those of earlier steps, but for each sequence's last ones, one per query.
  bool only_last_is_new;
};

/// Whether paged_decode.cuh takes a call: one query of each sequence, or few in all heads that
/// share keys.
inline bool is_decode(const PagedCall& call) {
  return call.max_query == 1 || call.max_query * (call.heads / call.groups) <= kFewPagedRows;
}

/// Any dtype, sums by plain arithmetic; head sizes up to 256.
void general_paged_attention(std::string_view op, int device, const PagedCall& call);
/// float16 and bfloat16 queries on the tensor cores; head sizes up to 256, multiples of 8. Tokens
/// of no sequence are left out where there are many queries.
template <class T>
void paged_attention_on_tensor_cores(std::string_view op, int device, const PagedCall& call);
/// The same for many queries by Hopper's own instructions, for devices that run *_sm90a.cu: head
/// sizes up to 128, no cap. False, and nothing is queued, where it does not apply.
bool paged_attention_on_hopper(std::string_view op, int device, const PagedCall& call);

}  // namespace tensora::cuda

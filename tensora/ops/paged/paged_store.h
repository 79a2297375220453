#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

struct PagedStoreOptions {
  int64_t heads = 0, kv_heads = 0;  // of the queries; of the keys and values
  bool in_halves = true;            // pairs are (i, i + R / 2); false: (2 i, 2 i + 1)
  Tensor q_norm = {}, k_norm = {};  // weights [D] of a root-mean-square norm of each head
  double eps = 1e-6;                // of these norms
  bool unit_offset = false;         // a norm's factors are 1 + weight
};

/// What lies between an attention layer's projection and its attention: splits T tokens' queries,
/// keys and values, qkv: T (H + 2 G) D; normalises the heads of queries and keys, if asked; turns
/// them by the angles of `positions` (int64 [T]) in the table cos_sin (float32 P R: R / 2 cosines,
/// then R / 2 sines; what lies behind the first R of D numbers is not turned); and writes keys and
/// values into the cache, blocks G block_size D, where token t goes to place slots[t] % block_size
/// of block slots[t] / block_size (int64 [T]; -1: nowhere). The caches are of float32, float16,
/// bfloat16, float8_e4m3fn or q8_0. Returns the queries, T H D, of qkv's dtype. No gradient.
Tensor paged_store(const Tensor& qkv, const Tensor& positions, const Tensor& slots,
                   const Tensor& key_cache, const Tensor& value_cache, const Tensor& cos_sin,
                   const PagedStoreOptions& options);

}  // namespace tensora

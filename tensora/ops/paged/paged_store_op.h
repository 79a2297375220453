#pragma once

// Internal header: the op behind paged_store.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (query, key_cache, value_cache, qkv, positions, slots, cos_sin, q_norm?, k_norm?) -> query,
/// key_cache, value_cache: the first three inputs are what is written, in place as a rule. The old
/// contents of `query` have no meaning. Where an output is not its input, it begins as a copy. All
/// inputs are contiguous.
struct PagedStoreAttrs {
  static constexpr size_t kQuery = 0, kKeys = 1, kValues = 2, kQkv = 3, kPositions = 4, kSlots = 5,
                          kCosSin = 6, kQNorm = 7, kKNorm = 8;
  int64_t heads = 0, kv_heads = 0;
  bool in_halves = true;
  double eps = 1e-6;
  bool unit_offset = false;
};
extern OpDef<PagedStoreAttrs> paged_store_op;

}  // namespace tensora

#pragma once

// Internal header: the op behind paged_self_attention, for one token of each sequence.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (result, key_cache, value_cache, qkv, positions, slots, cos_sin, query_starts, lengths,
/// block_table, q_norm?, k_norm?) -> result, key_cache, value_cache: the first three inputs are
/// written in place as a rule; the old contents of `result` have no meaning. All inputs are
/// contiguous. Caches, qkv and results have one dtype.
struct PagedSelfAttentionAttrs {
  static constexpr size_t kResult = 0, kKeys = 1, kValues = 2, kQkv = 3, kPositions = 4, kSlots = 5,
                          kCosSin = 6, kStarts = 7, kLengths = 8, kTable = 9, kQNorm = 10,
                          kKNorm = 11;
  int64_t heads = 0, kv_heads = 0;
  bool in_halves = true;
  double eps = 1e-6;
  bool unit_offset = false;
  std::optional<double> scale = {};
  double softcap = 0;
  int64_t window = 0, max_length = 0;
};
extern OpDef<PagedSelfAttentionAttrs> paged_self_attention_op;

}  // namespace tensora

#pragma once

// Internal header: the op behind paged_attention.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (query, key_cache, value_cache, query_starts, lengths, block_table) -> T H D. All inputs are
/// contiguous.
struct PagedAttentionAttrs {
  std::optional<double> scale = {};
  double softcap = 0;
  int64_t window = 0, max_query = 0, max_length = 0;
};
extern OpDef<PagedAttentionAttrs> paged_attention_op;

}  // namespace tensora

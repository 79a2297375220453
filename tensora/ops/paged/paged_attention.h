#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

struct PagedAttentionOptions {
  std::optional<double> scale = {};  // of the scores; by default 1 / √D
  double softcap = 0;                // c > 0: scores become c tanh(score / c)
  int64_t window = 0;                // w > 0: a query sees the last w positions, its own included
  int64_t max_query = 0;             // most queries of one sequence; 0: unknown
  int64_t max_length = 0;            // no length is greater; 0: unknown
};

/// Attention of T queries (T H D) of S sequences over a paged cache (blocks G block_size D; see
/// paged_store). Sequence s owns queries query_starts[s] to query_starts[s + 1] (int32 [S + 1]) and
/// lengths[s] places of the cache (int32 [S]): position p is place p % block_size of block
/// block_table[s][p / block_size] (int32 [S, most blocks]). Its last query stands at position
/// lengths[s] - 1, the others before it, and each sees the positions up to its own. A query that
/// sees nothing, or belongs to no sequence, gives zeros. Head h reads the keys and values of head
/// h / (H / G). Sums are float32. On the CPU they do not depend on the other sequences or on how
/// many of a sequence's queries come at once; on CUDA their order does. Returns T H D. No gradient.
Tensor paged_attention(const Tensor& query, const Tensor& key_cache, const Tensor& value_cache,
                       const Tensor& query_starts, const Tensor& lengths, const Tensor& block_table,
                       const PagedAttentionOptions& options = {});

}  // namespace tensora

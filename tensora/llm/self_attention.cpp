#include "tensora/llm/self_attention.h"

#include "tensora/ops.h"

namespace tensora::llm {
namespace {

// Note [Decoding beside prefill]
// A GPU's kernel is chosen by the most queries that a sequence has. One for many queries has a tile
// of 64 or 128 rows for each sequence and head, also where there is a single query, and reads keys
// and values once per head instead of once per group of heads. Where a thousand sequences are
// continued and one prompt is read, nearly all of its work is in vain. So sequences with a single
// query, which come first in a batch, get a call of their own. Beside few of them the second call
// costs more than it spares. The CPU's kernel costs a sequence the same beside any others.
constexpr int64_t kWorthOwnCall = 8;

}  // namespace

Tensor self_attention(const Tensor& qkv, const Batch& batch, const Tensor& key_cache,
                      const Tensor& value_cache, const Tensor& cos_sin,
                      PagedSelfAttentionOptions options) {
  options.attention.max_query = batch.max_query;
  options.attention.max_length = batch.max_length;
  const bool is_divided = batch.single_queries >= kWorthOwnCall && batch.max_query > 1;
  if (is_divided && !qkv.device().is_cpu())
    return divided_self_attention(qkv, batch, key_cache, value_cache, cos_sin, options);
  return paged_self_attention(qkv, batch.positions, batch.slots, key_cache, value_cache, cos_sin,
                              batch.query_starts, batch.lengths, batch.block_table, options);
}

Tensor divided_self_attention(const Tensor& qkv, const Batch& batch, const Tensor& key_cache,
                              const Tensor& value_cache, const Tensor& cos_sin,
                              const PagedSelfAttentionOptions& options) {
  const int64_t singles = batch.single_queries, others = batch.lengths.size(0) - singles;
  ensure(singles > 0 && others > 0, "self_attention: nothing to divide");
  const Tensor query = paged_store(qkv, batch.positions, batch.slots, key_cache, value_cache,
                                   cos_sin, options.store);
  // To this call the single queries are of no sequence; it gives zeros for them.
  Tensor result = paged_attention(query, key_cache, value_cache,
                                  narrow(batch.query_starts, 0, singles, others + 1),
                                  narrow(batch.lengths, 0, singles, others),
                                  narrow(batch.block_table, 0, singles, others), options.attention);
  PagedAttentionOptions one = options.attention;
  one.max_query = 1;
  const Tensor continued = paged_attention(narrow(query, 0, 0, singles), key_cache, value_cache,
                                           narrow(batch.query_starts, 0, 0, singles + 1),
                                           narrow(batch.lengths, 0, 0, singles),
                                           narrow(batch.block_table, 0, 0, singles), one);
  copy_(narrow(result, 0, 0, singles), continued);
  return result;
}

}  // namespace tensora::llm

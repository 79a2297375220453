#pragma once

#include "tensora/ops/paged/paged_attention.h"
#include "tensora/ops/paged/paged_store.h"

namespace tensora {

struct PagedSelfAttentionOptions {
  PagedStoreOptions store;
  PagedAttentionOptions attention = {};
};

/// paged_store and then paged_attention of the queries that it returns: what lies between an
/// attention layer's two projections. Returns T H D, of qkv's dtype. One kernel does it all where
/// each sequence has one token, on GPUs that can; there every token's slot must be the place of its
/// sequence's last position, or -1. No gradient.
Tensor paged_self_attention(const Tensor& qkv, const Tensor& positions, const Tensor& slots,
                            const Tensor& key_cache, const Tensor& value_cache,
                            const Tensor& cos_sin, const Tensor& query_starts,
                            const Tensor& lengths, const Tensor& block_table,
                            const PagedSelfAttentionOptions& options);

}  // namespace tensora

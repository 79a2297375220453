#pragma once

#include "tensora/llm/batch.h"
#include "tensora/ops/paged/paged_self_attention.h"

namespace tensora::llm {

/// paged_self_attention of a batch's tokens, by one call or by two: see Note [Decoding beside
/// prefill].
Tensor self_attention(const Tensor& qkv, const Batch& batch, const Tensor& key_cache,
                      const Tensor& value_cache, const Tensor& cos_sin,
                      PagedSelfAttentionOptions options);

/// By two calls; some of the batch's sequences, but not all, must be single queries.
Tensor divided_self_attention(const Tensor& qkv, const Batch& batch, const Tensor& key_cache,
                              const Tensor& value_cache, const Tensor& cos_sin,
                              const PagedSelfAttentionOptions& options);

}  // namespace tensora::llm

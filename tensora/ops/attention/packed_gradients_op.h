#pragma once

// Internal header: the gradients of query, key and value side by side.

#include "tensora/ops/attention/attention.h"

namespace tensora {

/// The inputs of attention_backward_op -> the gradients of query, key and value in one contiguous
/// tensor [B, L, 3, H, D]. For queries, keys and values that are slices of one product: its
/// gradient is then complete, and nothing is copied together.
extern OpDef<AttentionAttrs> packed_attention_backward_op;

/// Whether the three are slices 0, 1 and 2 of a contiguous tensor [B, L, 3, H, D], each with heads
/// before positions.
bool are_packed(const Tensor& query, const Tensor& key, const Tensor& value);

}  // namespace tensora

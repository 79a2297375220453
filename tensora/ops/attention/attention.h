#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct AttentionAttrs {
  bool is_causal = false;
  std::optional<double> scale = {};  // 1 / sqrt(head size) if not given
  double dropout_p = 0;
  uint64_t seed = 0, offset = 0;  // of the dropout; see Note [Dropout of a matrix never stored]
  int64_t max_seqlen_k = 0;       // packed sequences: the most keys of one of them
  bool mask_gradient = false;     // whether the backward also gives the gradient of the mask
};

/// softmax(scale * query @ key^T + mask) @ value for every head, without the matrix in memory.
///
///   query        B H L D     heads h uses head h / (H / G) of key and value
///   key          B G S D
///   value        B G S E
///   attn_mask    each dim that of B H L S or 1; bool (true: takes part) or added to the scores
///   cu_seqlens_q N + 1, int32: where sequence n begins in L. Then B is 1, queries of a sequence
///   cu_seqlens_k N + 1, int32  meet the keys of that sequence only, and positions count within it.
///
/// Outputs: the result (B H L E, laid out like the query) and the logarithm of each row's sum of
/// exponentials (B H L, float32; float64 for float64), from which the backward recomputes the
/// probabilities. A row whose keys are all masked gives zeros.
extern OpDef<AttentionAttrs> attention_op;
/// Its gradient. Inputs: those of the result, query, key, value, the result, its logarithms, the
/// other inputs of attention, and the gradient of the logarithms. Outputs: the gradients of query,
/// key and value, and with `mask_gradient` that of the mask.
extern OpDef<AttentionAttrs> attention_backward_op;

/// PyTorch's function. query: … L D, key: … S D, value: … S E, result: … L E; leading dims
/// broadcast. With `enable_gqa` the third dim from the end counts heads, and those of key and value
/// divide those of query. `attn_mask` broadcasts to … L S: bool, float32 or of the query's dtype.
/// `is_causal`: query i meets keys 0 … i.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, double dropout_p = 0,
                                    bool is_causal = false, std::optional<double> scale = {},
                                    bool enable_gqa = false);
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value);

/// Attention within each of many sequences that lie one after another: query: total_q H D, key:
/// total_k G D, value: total_k G E, where G divides H; result: total_q H E. Sequence n has queries
/// cu_seqlens_q[n] … cu_seqlens_q[n + 1] - 1, and its keys accordingly. No sequence is longer than
/// `max_seqlen_q` and `max_seqlen_k`.
Tensor varlen_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& cu_seqlens_q, const Tensor& cu_seqlens_k,
                        int64_t max_seqlen_q, int64_t max_seqlen_k, double dropout_p = 0,
                        bool is_causal = false, std::optional<double> scale = {});

}  // namespace tensora

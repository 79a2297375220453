#include "tensora/nn/causal_self_attention.h"

#include <algorithm>

#include "tensora/base/check.h"
#include "tensora/ops.h"
#include "tensora/ops/matrix/linear_group_op.h"

namespace tensora::nn {

Tensor causal_mask(int64_t queries, int64_t keys, std::optional<int64_t> window, Device device) {
  check(queries >= 0 && keys >= queries,
        "causal_mask: expected at least as many keys as queries, "
        "got ",
        keys, " and ", queries);
  const Tensor all = ones({queries, keys}, {.dtype = kBool, .device = device});
  const Tensor before = all.tril(keys - queries);
  return window ? before.triu(keys - queries - *window + 1) : before;
}

Tensor causal_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                        const AttentionStep& step, const CausalAttentionOptions& options) {
  check(query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
        "causal_attention: expected query, key and value of shape [batch, heads, positions, size], "
        "got ",
        query.sizes(), ", ", key.sizes(), " and ", value.sizes());
  check(!options.window || *options.window > 0, "causal_attention: window must be positive, got ",
        options.window.value_or(1));
  Tensor k = key, v = value, mask = step.mask;
  if (step.cache) std::tie(k, v) = step.cache->append(step.layer, key, value);
  const int64_t queries = query.size(2), keys = k.size(2);
  const bool all_in_window = !options.window || keys <= *options.window;
  bool causal = false;
  if (mask.defined()) {
    // given
  } else if (queries == keys && all_in_window) {
    causal = true;
  } else if (queries == 1) {  // one position sees all that the window holds
    const int64_t seen = all_in_window ? keys : *options.window;
    k = k.narrow(2, keys - seen, seen);
    v = v.narrow(2, keys - seen, seen);
  } else {
    mask = causal_mask(queries, keys, options.window, query.device());
  }
  const Tensor result =
      scaled_dot_product_attention(query, k, v, mask, options.dropout_p, causal, {}, true);
  return result.transpose(1, 2).flatten(2);
}

CausalSelfAttention::CausalSelfAttention(int64_t given_dim, int64_t heads,
                                         CausalSelfAttentionOptions given)
    : dim(given_dim),
      num_heads(heads),
      options(std::move(given)),
      q_proj(0, 0),
      k_proj(0, 0),
      v_proj(0, 0),
      o_proj(0, 0) {
  constexpr auto layer = "CausalSelfAttention";
  check(dim > 0 && num_heads > 0, layer, ": dim and num_heads must be positive, got ", dim, " and ",
        num_heads);
  if (options.num_kv_heads == 0) options.num_kv_heads = num_heads;
  check(options.num_kv_heads > 0 && num_heads % options.num_kv_heads == 0, layer,
        ": num_kv_heads must divide num_heads, got ", options.num_kv_heads, " and ", num_heads);
  check(options.head_size > 0 || dim % num_heads == 0, layer, ": num_heads must divide dim, got ",
        num_heads, " and ", dim);
  if (options.head_size == 0) options.head_size = dim / num_heads;
  check(!options.rotary || options.rotary->size() <= options.head_size, layer,
        ": the rotary embedding turns more than the ", options.head_size, " elements of a head");
  const int64_t size = options.head_size;
  const LinearOptions in{.bias = options.bias};
  q_proj = register_module("q_proj", Linear(dim, num_heads * size, in));
  k_proj = register_module("k_proj", Linear(dim, options.num_kv_heads * size, in));
  v_proj = register_module("v_proj", Linear(dim, options.num_kv_heads * size, in));
  o_proj = register_module("o_proj", Linear(num_heads * size, dim, {.bias = options.out_bias}));
  if (options.qk_norm_eps) {
    q_norm = register_module("q_norm", RMSNorm({size}, {.eps = options.qk_norm_eps}));
    k_norm = register_module("k_norm", RMSNorm({size}, {.eps = options.qk_norm_eps}));
  }
}

Tensor CausalSelfAttention::forward(const Tensor& input, const AttentionStep& step) const {
  check(input.dim() == 3 && input.size(2) == dim,
        "CausalSelfAttention: expected an input of shape [batch, positions, ", dim, "], got ",
        input.sizes());
  const auto heads_of = [&](const Tensor& x, const std::optional<RMSNorm>& norm) {
    const Tensor heads = x.unflatten(-1, {-1, options.head_size});
    return (norm ? (*norm)(heads) : heads).transpose(1, 2);
  };
  const Linear* const layers[] = {&q_proj, &k_proj, &v_proj};
  bool plain = true;
  for (const Linear* layer : layers)
    plain &= !layer->bias.defined() && !(layer->*&CausalSelfAttention::has_hooks)();
  std::vector<Tensor> parts;
  if (plain)
    parts = linear_group(input, std::vector<Tensor>{q_proj.weight, k_proj.weight, v_proj.weight});
  else
    for (const Linear* layer : layers) parts.push_back((*layer)(input));
  Tensor q = heads_of(parts[0], q_norm), k = heads_of(parts[1], k_norm);
  const Tensor v = heads_of(parts[2], {});
  const int64_t start = step.cache ? step.cache->length(step.layer) : 0;
  if (options.rotary) std::tie(q, k) = (*options.rotary)(q, k, start);
  return o_proj(causal_attention(
      q, k, v, step, {.window = options.window, .dropout_p = is_training() ? options.dropout : 0}));
}

std::string CausalSelfAttention::extra_repr() const {
  return concat("dim=", dim, ", num_heads=", num_heads, ", num_kv_heads=", options.num_kv_heads,
                ", head_size=", options.head_size);
}

}  // namespace tensora::nn

#include "tensora/ops/paged/paged_self_attention.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops.h"
#include "tensora/ops/paged/paged_checks.h"
#include "tensora/ops/paged/paged_self_attention_op.h"

namespace tensora {

constexpr auto describe(std::type_identity<PagedSelfAttentionAttrs>) {
  using A = PagedSelfAttentionAttrs;
  return fields(field("heads", &A::heads), field("kv_heads", &A::kv_heads),
                field("in_halves", &A::in_halves), field("eps", &A::eps),
                field("unit_offset", &A::unit_offset), field("scale", &A::scale),
                field("softcap", &A::softcap), field("window", &A::window),
                field("max_length", &A::max_length));
}

namespace {

using A = PagedSelfAttentionAttrs;

PagedStoreOptions store_options(const A& attrs, const Tensor& q_norm, const Tensor& k_norm) {
  return {.heads = attrs.heads,
          .kv_heads = attrs.kv_heads,
          .in_halves = attrs.in_halves,
          .q_norm = q_norm,
          .k_norm = k_norm,
          .eps = attrs.eps,
          .unit_offset = attrs.unit_offset};
}

Tensors paged_self_attention_definition(Args in, const A& attrs) {
  const auto norm = [&](size_t i) { return i < in.size() ? *in[i] : Tensor(); };
  const Tensor keys = clone(*in[A::kKeys]), values = clone(*in[A::kValues]);
  const Tensor query =
      paged_store(*in[A::kQkv], *in[A::kPositions], *in[A::kSlots], keys, values, *in[A::kCosSin],
                  store_options(attrs, norm(A::kQNorm), norm(A::kKNorm)));
  const Tensor result =
      paged_attention(query, keys, values, *in[A::kStarts], *in[A::kLengths], *in[A::kTable],
                      {.scale = attrs.scale,
                       .softcap = attrs.softcap,
                       .window = attrs.window,
                       .max_query = 1,
                       .max_length = attrs.max_length});
  return Tensors{result, keys, values};
}

}  // namespace

constinit OpDef<PagedSelfAttentionAttrs> paged_self_attention_op =
    define(Op<PagedSelfAttentionAttrs>{
        .name = "paged_self_attention",
        .inputs = {"result", "key_cache", "value_cache", "qkv", "positions", "slots", "cos_sin",
                   "query_starts", "lengths", "block_table", "q_norm?", "k_norm?"},
        .internal = true,
        .infer =
            [](Infer& infer, const A&) {
              for (size_t i : {A::kResult, A::kKeys, A::kValues})
                infer.output(infer[i].sizes(), infer[i].dtype());
            },
        .reference = paged_self_attention_definition,
        .gradient = Gradient::not_differentiable,
        .accepts = kCacheDTypes | set_of(kInt64) | set_of(kInt32),
    });

void register_paged_self_attention(OpRegistry& registry) {
  registry.add(paged_self_attention_op);
  shard_by(paged_self_attention_op, "writes");
}

namespace {

// One token of each sequence, and what the kernel on tensor cores takes. All that is not looked at
// here is checked by paged_store's and paged_attention's rules, on shapes that agree.
bool is_one_step(const Tensor& qkv, const Tensor& positions, const Tensor& slots,
                 const Tensor& key_cache, const Tensor& value_cache, const Tensor& cos_sin,
                 const Tensor& starts, const Tensor& lengths, const Tensor& table,
                 const PagedSelfAttentionOptions& options) {
  const PagedStoreOptions& store = options.store;
  if (!paged_self_attention_op.has_kernel(qkv.device().type) || options.attention.max_query != 1)
    return false;
  const int64_t tokens = qkv.dim() == 2 ? qkv.size(0) : 0;
  const DType dtype = qkv.dtype();
  const auto is = [&](const Tensor& x, DType wanted, const Shape& sizes) {
    return x.dtype() == wanted && x.sizes() == sizes && x.is_contiguous() &&
           x.device() == qkv.device();
  };
  if (tokens == 0 || (dtype != kFloat16 && dtype != kBFloat16) || key_cache.dim() != 4 ||
      store.kv_heads <= 0 || store.heads % store.kv_heads != 0)
    return false;
  const int64_t size = key_cache.size(3), shared = store.heads / store.kv_heads;
  const Shape cache{key_cache.size(0), store.kv_heads, key_cache.size(2), size};
  const auto is_norm = [&](const Tensor& norm) {
    return !norm.defined() || is(norm, norm.dtype(), {size});
  };
  return (size == 64 || size == 128) && shared <= 16 && cos_sin.dim() == 2 && table.dim() == 2 &&
         cache[2] > 0 && cos_sin.size(1) % 2 == 0 && cos_sin.size(1) <= size &&
         is(qkv, dtype, {tokens, (store.heads + 2 * store.kv_heads) * size}) &&
         is(key_cache, dtype, cache) && is(value_cache, dtype, cache) &&
         is(positions, kInt64, {tokens}) && is(slots, kInt64, {tokens}) &&
         is(cos_sin, kFloat32, cos_sin.sizes()) && is(starts, kInt32, {tokens + 1}) &&
         is(lengths, kInt32, {tokens}) && is(table, kInt32, {tokens, table.size(1)}) &&
         is_norm(store.q_norm) && is_norm(store.k_norm) && options.attention.softcap >= 0 &&
         options.attention.window >= 0;
}

}  // namespace

Tensor paged_self_attention(const Tensor& qkv, const Tensor& positions, const Tensor& slots,
                            const Tensor& key_cache, const Tensor& value_cache,
                            const Tensor& cos_sin, const Tensor& query_starts,
                            const Tensor& lengths, const Tensor& block_table,
                            const PagedSelfAttentionOptions& options) {
  for (const Tensor* x : {&qkv, &positions, &slots, &key_cache, &value_cache, &cos_sin,
                          &query_starts, &lengths, &block_table})
    check(x->defined(), "paged_self_attention: expected nine tensors, one is undefined");
  const PagedStoreOptions& store = options.store;
  const PagedAttentionOptions& attention = options.attention;
  if (!is_one_step(qkv, positions, slots, key_cache, value_cache, cos_sin, query_starts, lengths,
                   block_table, options)) {
    const Tensor query = paged_store(qkv, positions, slots, key_cache, value_cache, cos_sin, store);
    return paged_attention(query, key_cache, value_cache, query_starts, lengths, block_table,
                           attention);
  }
  const no_grad silent;
  Tensor result = empty({qkv.size(0), store.heads, key_cache.size(3)},
                        {.dtype = qkv.dtype(), .device = qkv.device()});
  apply_inplace(paged_self_attention_op,
                {result, key_cache, value_cache, qkv, positions, slots, cos_sin, query_starts,
                 lengths, block_table, store.q_norm, store.k_norm},
                {store.heads, store.kv_heads, store.in_halves, store.eps, store.unit_offset,
                 attention.scale, attention.softcap, attention.window, attention.max_length});
  return result;
}

}  // namespace tensora

#include "tensora/ops/paged/paged_store.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/paged/paged_checks.h"
#include "tensora/ops/paged/paged_store_op.h"

namespace tensora {

constexpr auto describe(std::type_identity<PagedStoreAttrs>) {
  using A = PagedStoreAttrs;
  return fields(field("heads", &A::heads), field("kv_heads", &A::kv_heads),
                field("in_halves", &A::in_halves), field("eps", &A::eps),
                field("unit_offset", &A::unit_offset));
}

namespace {

using A = PagedStoreAttrs;

void check_norm(const Infer& infer, size_t at, std::string_view what, int64_t size) {
  if (!infer.has(at)) return;
  infer.check(contains(kPagedActivations, infer[at].dtype()) && infer[at].sizes() == Shape{size},
              what, " must be float32, float16 or bfloat16 of shape [", size, "], got ",
              infer[at].dtype(), " ", infer[at].sizes());
  infer.check(infer[at].is_contiguous(), what, " must be contiguous");
}

void infer_paged_store(Infer& infer, const A& attrs) {
  check_caches(infer, A::kKeys, A::kValues);
  const Tensor &keys = infer[A::kKeys], &qkv = infer[A::kQkv], &table = infer[A::kCosSin];
  const int64_t size = keys.size(3);
  infer.check(attrs.heads > 0 && attrs.kv_heads > 0, "expected positive numbers of heads, got ",
              attrs.heads, " and ", attrs.kv_heads);
  infer.check(keys.size(1) == attrs.kv_heads, "the caches have ", keys.size(1), " heads, expected ",
              attrs.kv_heads);
  infer.check(contains(kPagedActivations, qkv.dtype()),
              "qkv must be float32, float16 or bfloat16, got ", qkv.dtype());
  const int64_t width = (attrs.heads + 2 * attrs.kv_heads) * size;
  infer.check(qkv.dim() == 2 && qkv.size(1) == width, "qkv must have shape [tokens, ", width,
              "], got ", qkv.sizes());
  infer.check(qkv.is_contiguous(), "qkv must be contiguous");
  const int64_t tokens = qkv.size(0);
  check_integers(infer, A::kPositions, "positions", kInt64, {tokens});
  check_integers(infer, A::kSlots, "slots", kInt64, {tokens});
  infer.check(table.dtype() == kFloat32 && table.dim() == 2 && table.size(1) % 2 == 0 &&
                  table.size(1) <= size,
              "cos_sin must be float32 of shape [positions, an even number up to ", size, "], got ",
              table.dtype(), " ", table.sizes());
  infer.check(table.is_contiguous(), "cos_sin must be contiguous");
  check_norm(infer, A::kQNorm, "q_norm", size);
  check_norm(infer, A::kKNorm, "k_norm", size);
  const Tensor& query = infer[A::kQuery];
  const Shape sizes{tokens, attrs.heads, size};
  infer.check(query.sizes() == sizes && query.dtype() == qkv.dtype() && query.is_contiguous(),
              "query must be contiguous ", qkv.dtype(), " of shape ", sizes, ", got ",
              query.dtype(), " ", query.sizes());
  infer.output(sizes, qkv.dtype());
  infer.output(keys.sizes(), keys.dtype());
  infer.output(keys.sizes(), keys.dtype());
}

// Heads T h D in float32: normalised where there is a weight, and turned.
Tensor prepared(const Tensor& heads, const Tensor& norm, const Tensor& cos, const Tensor& sin,
                const A& attrs) {
  Tensor x = heads;
  if (norm.defined()) {
    const Tensor wide = to(norm, kFloat32);
    x = rms_norm(x, {x.size(-1)}, attrs.unit_offset ? wide + 1 : wide, attrs.eps);
  }
  return rotary_embedding(x, cos, sin, !attrs.in_halves);
}

// One token's keys or values, G D, to where they belong in the cache.
void put(const Tensor& cache, int64_t slot, const Tensor& heads) {
  const int64_t size = cache.size(2);
  const Tensor place = select(select(cache, 0, slot / size), 1, slot % size);
  if (cache.is_quantized())
    copy_(place, quantize(heads, cache.dtype()));
  else
    copy_(place, to(heads, cache.dtype()));
}

Tensors paged_store_definition(Args in, const A& attrs) {
  const Tensor &keys = *in[A::kKeys], &table = *in[A::kCosSin];
  const int64_t tokens = in[A::kQkv]->size(0), size = keys.size(3), half = table.size(1) / 2;
  const Tensor heads =
      reshape(to(*in[A::kQkv], kFloat32), {tokens, attrs.heads + 2 * attrs.kv_heads, size});
  const Tensor angles = unsqueeze(index_select(table, 0, *in[A::kPositions]), 1);
  const Tensor cos = narrow(angles, -1, 0, half), sin = narrow(angles, -1, half, half);
  const auto norm = [&](size_t i) { return i < in.size() ? *in[i] : Tensor(); };
  const Tensor q = prepared(narrow(heads, 1, 0, attrs.heads), norm(A::kQNorm), cos, sin, attrs);
  const Tensor k =
      prepared(narrow(heads, 1, attrs.heads, attrs.kv_heads), norm(A::kKNorm), cos, sin, attrs);
  const Tensor v = narrow(heads, 1, attrs.heads + attrs.kv_heads, attrs.kv_heads);
  const Tensor new_keys = clone(keys), new_values = clone(*in[A::kValues]);
  const Tensor slots = in[A::kSlots]->cpu();
  const int64_t places = keys.size(0) * keys.size(2);
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t slot = slots.data_ptr<int64_t>()[t];
    check(slot >= -1 && slot < places, "paged_store: slot ", slot, " of token ", t,
          " is not in a cache of ", places, " places");
    if (slot < 0) continue;
    put(new_keys, slot, select(k, 0, t));
    put(new_values, slot, select(v, 0, t));
  }
  return Tensors{to(q, in[A::kQkv]->dtype()), new_keys, new_values};
}

}  // namespace

constinit OpDef<PagedStoreAttrs> paged_store_op = define(Op<PagedStoreAttrs>{
    .name = "paged_store",
    .inputs = {"query", "key_cache", "value_cache", "qkv", "positions", "slots", "cos_sin",
               "q_norm?", "k_norm?"},
    .infer = infer_paged_store,
    .reference = paged_store_definition,
    .gradient = Gradient::not_differentiable,
    .accepts = kCacheDTypes | set_of(kInt64),
});

void register_paged_store(OpRegistry& registry) {
  registry.add(paged_store_op);
  shard_by(paged_store_op, "writes");
}

Tensor paged_store(const Tensor& qkv, const Tensor& positions, const Tensor& slots,
                   const Tensor& key_cache, const Tensor& value_cache, const Tensor& cos_sin,
                   const PagedStoreOptions& options) {
  check(qkv.defined() && key_cache.defined() && qkv.dim() == 2 && key_cache.dim() == 4 &&
            options.heads > 0,
        "paged_store: expected qkv of 2 dimensions, caches of 4 and a number of heads");
  const no_grad silent;
  const auto laid_out = [](const Tensor& x) { return x.defined() ? contiguous(x) : x; };
  Tensor query = empty({qkv.size(0), options.heads, key_cache.size(3)},
                       {.dtype = qkv.dtype(), .device = qkv.device()});
  apply_inplace(
      paged_store_op,
      {query, key_cache, value_cache, contiguous(qkv), contiguous(positions), contiguous(slots),
       contiguous(cos_sin), laid_out(options.q_norm), laid_out(options.k_norm)},
      {options.heads, options.kv_heads, options.in_halves, options.eps, options.unit_offset});
  return query;
}

}  // namespace tensora

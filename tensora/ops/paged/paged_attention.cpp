#include "tensora/ops/paged/paged_attention.h"

#include <cmath>

#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/paged/paged_attention_op.h"
#include "tensora/ops/paged/paged_checks.h"

namespace tensora {

constexpr auto describe(std::type_identity<PagedAttentionAttrs>) {
  using A = PagedAttentionAttrs;
  return fields(field("scale", &A::scale), field("softcap", &A::softcap),
                field("window", &A::window), field("max_query", &A::max_query),
                field("max_length", &A::max_length));
}

namespace {

void infer_paged_attention(Infer& infer, const PagedAttentionAttrs& attrs) {
  check_caches(infer, 1, 2);
  const Tensor &query = infer[0], &keys = infer[1], &table = infer[5];
  infer.check(contains(kPagedActivations, query.dtype()),
              "query must be float32, float16 or bfloat16, got ", query.dtype());
  infer.check(query.dim() == 3 && query.size(2) == keys.size(3),
              "query must have shape [tokens, heads, ", keys.size(3), "], got ", query.sizes());
  infer.check(query.is_contiguous(), "query must be contiguous");
  infer.check(keys.size(1) > 0 && query.size(1) % keys.size(1) == 0, query.size(1),
              " heads cannot share the ", keys.size(1), " heads of the cache evenly");
  const int64_t sequences = infer[4].dim() == 1 ? infer[4].size(0) : 0;
  check_integers(infer, 4, "lengths", kInt32, {sequences});
  check_integers(infer, 3, "query_starts", kInt32, {sequences + 1});
  infer.check(table.dim() == 2, "block_table must be a matrix, got shape ", table.sizes());
  check_integers(infer, 5, "block_table", kInt32, {sequences, table.size(1)});
  infer.check(attrs.softcap >= 0 && std::isfinite(attrs.softcap),
              "softcap must be 0 or positive, got ", attrs.softcap);
  infer.check(!attrs.scale || std::isfinite(*attrs.scale), "scale must be finite, got ",
              attrs.scale.value_or(0));
  infer.check(attrs.window >= 0 && attrs.max_query >= 0 && attrs.max_length >= 0,
              "window, max_query and max_length must not be negative, got ", attrs.window, ", ",
              attrs.max_query, " and ", attrs.max_length);
  infer.output(query.sizes(), query.dtype());
}

// The first `length` places of a sequence, G length D in float32; `cache` is float32.
Tensor gathered(const Tensor& cache, const Tensor& blocks, int64_t length) {
  const Tensor found = permute(index_select(cache, 0, blocks), {1, 0, 2, 3});
  return narrow(reshape(found, {cache.size(1), blocks.size(0) * cache.size(2), cache.size(3)}), 1,
                0, length);
}

// Queries n H D, the last of which stands at position length - 1.
Tensor attended(const Tensor& query, const Tensor& keys, const Tensor& values,
                const PagedAttentionAttrs& attrs) {
  const int64_t n = query.size(0), heads = query.size(1), size = query.size(2);
  const int64_t groups = keys.size(0), length = keys.size(1);
  const double scale = attrs.scale.value_or(1 / std::sqrt(static_cast<double>(size)));
  const Tensor q =
      reshape(transpose(to(query, kFloat32), 0, 1), {groups, heads / groups * n, size});
  Tensor scores = matmul(q, transpose(keys, 1, 2)) * scale;
  if (attrs.softcap > 0) scores = tanh(scores / attrs.softcap) * attrs.softcap;
  const TensorOptions options{.dtype = kInt64, .device = query.device()};
  const Tensor at = unsqueeze(arange(n, options) + (length - n), 1), seen = arange(length, options);
  Tensor hidden = seen > at;
  if (attrs.window > 0) hidden = logical_or(hidden, seen <= at - attrs.window);
  scores = masked_fill(reshape(scores, {heads, n, length}), hidden, -HUGE_VAL);
  // A query before the first position sees nothing.
  const Tensor weights = masked_fill(softmax(scores, -1), at < 0, 0);
  const Tensor result = matmul(reshape(weights, {groups, heads / groups * n, length}), values);
  return transpose(reshape(result, {heads, n, size}), 0, 1);
}

Tensor floats_of(const Tensor& cache) {
  return cache.is_quantized() ? dequantize(cache) : to(cache, kFloat32);
}

Tensors paged_attention_definition(Args in, const PagedAttentionAttrs& attrs) {
  const Tensor &query = *in[0], keys = floats_of(*in[1]), values = floats_of(*in[2]);
  const Tensor starts = in[3]->cpu(), lengths = in[4]->cpu();
  const Tensor result = zeros(query.sizes(), {.dtype = query.dtype(), .device = query.device()});
  const int64_t block_size = keys.size(2);
  for (int64_t s = 0; s < lengths.size(0); ++s) {
    const int64_t first = starts.data_ptr<int32_t>()[s], last = starts.data_ptr<int32_t>()[s + 1];
    const int64_t length = lengths.data_ptr<int32_t>()[s];
    check(0 <= first && first <= last && last <= query.size(0), "paged_attention: queries ", first,
          " to ", last, " of sequence ", s, " are not among ", query.size(0));
    const int64_t blocks = (length + block_size - 1) / block_size;
    check(length >= 0 && blocks <= in[5]->size(1), "paged_attention: sequence ", s, " of length ",
          length, " does not fit into ", in[5]->size(1), " blocks of ", block_size);
    if (first == last || length == 0) continue;
    const Tensor numbers = to(narrow(select(*in[5], 0, s), 0, 0, blocks), kInt64);
    copy_(narrow(result, 0, first, last - first),
          attended(narrow(query, 0, first, last - first), gathered(keys, numbers, length),
                   gathered(values, numbers, length), attrs));
  }
  return Tensors{result};
}

}  // namespace

constinit OpDef<PagedAttentionAttrs> paged_attention_op = define(Op<PagedAttentionAttrs>{
    .name = "paged_attention",
    .inputs = {"query", "key_cache", "value_cache", "query_starts", "lengths", "block_table"},
    .infer = infer_paged_attention,
    .reference = paged_attention_definition,
    .gradient = Gradient::not_differentiable,
    .accepts = kCacheDTypes | set_of(kInt32),
});

void register_paged_attention(OpRegistry& registry) { registry.add(paged_attention_op); }

Tensor paged_attention(const Tensor& query, const Tensor& key_cache, const Tensor& value_cache,
                       const Tensor& query_starts, const Tensor& lengths, const Tensor& block_table,
                       const PagedAttentionOptions& options) {
  return apply(
      paged_attention_op,
      {contiguous(query), key_cache, value_cache, contiguous(query_starts), contiguous(lengths),
       contiguous(block_table)},
      {options.scale, options.softcap, options.window, options.max_query, options.max_length});
}

}  // namespace tensora

#include "tensora/ops/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "tensora/core/random.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops.h"
#include "tensora/ops/attention/attention_definition.h"
#include "tensora/ops/attention/packed_gradients_op.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/random/random_mt19937.h"

namespace tensora {

constexpr auto describe(std::type_identity<AttentionAttrs>) {
  return fields(field("is_causal", &AttentionAttrs::is_causal),
                field("scale", &AttentionAttrs::scale),
                field("dropout_p", &AttentionAttrs::dropout_p),
                field("seed", &AttentionAttrs::seed), field("offset", &AttentionAttrs::offset),
                field("max_seqlen_k", &AttentionAttrs::max_seqlen_k),
                field("mask_gradient", &AttentionAttrs::mask_gradient));
}

namespace {

// ---- the rule ----------------------------------------------------------------------------------

DType statistics_dtype(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

void check_mask(const Infer& infer, const Tensor& mask, const Shape& scores) {
  const DType dtype = infer[0].dtype();
  infer.check(mask.dtype() == kBool || mask.dtype() == kFloat32 || mask.dtype() == dtype,
              "attn_mask must be bool, float32 or of the query's dtype ", dtype, ", got ",
              mask.dtype());
  infer.check(mask.dim() == 4 && can_broadcast_to(mask.sizes(), scores), "attn_mask of shape ",
              mask.sizes(), " does not broadcast to ", scores);
}

void check_lengths(const Infer& infer, const AttentionAttrs& attrs) {
  infer.check(infer.has(4) && infer.has(5), "cu_seqlens_q and cu_seqlens_k must be given together");
  const Tensor &q = infer[4], &k = infer[5];
  infer.check(q.dtype() == kInt32 && k.dtype() == kInt32,
              "cu_seqlens_q and cu_seqlens_k must be int32, got ", q.dtype(), " and ", k.dtype());
  infer.check(q.dim() == 1 && q.sizes() == k.sizes() && q.size(0) >= 1,
              "cu_seqlens_q and cu_seqlens_k must be two vectors of one length, got shapes ",
              q.sizes(), " and ", k.sizes());
  infer.check(infer[0].size(0) == 1 && !infer.has(3),
              "packed sequences are one batch and have no attn_mask");
  infer.check(attrs.max_seqlen_k >= 0, "max_seqlen_k must not be negative, got ",
              attrs.max_seqlen_k);
}

Strides strides_like(const Tensor& query, const Shape& sizes) {
  const int64_t heads = sizes[1], rows = sizes[2], size = sizes[3];
  if (!heads_lie_inside(query)) return contiguous_strides(sizes);
  return {rows * heads * size, size, heads * size, 1};
}

void infer_attention(Infer& infer, const AttentionAttrs& attrs) {
  const Tensor &q = infer[0], &k = infer[1], &v = infer[2];
  infer.check(q.dim() == 4 && k.dim() == 4 && v.dim() == 4,
              "query, key and value must have 4 dimensions, got shapes ", q.sizes(), ", ",
              k.sizes(), " and ", v.sizes());
  infer.check(q.is_floating_point() && q.dtype() == k.dtype() && q.dtype() == v.dtype(),
              "query, key and value must have one floating-point dtype, got ", q.dtype(), ", ",
              k.dtype(), " and ", v.dtype());
  infer.check(q.size(0) == k.size(0) && q.size(0) == v.size(0) && k.size(1) == v.size(1),
              "the batches or heads of query ", q.sizes(), ", key ", k.sizes(), " and value ",
              v.sizes(), " differ");
  infer.check(k.size(1) == 0 ? q.size(1) == 0 : q.size(1) % k.size(1) == 0, "the ", k.size(1),
              " heads of key and value must divide the ", q.size(1), " heads of query");
  infer.check(q.size(3) == k.size(3), "query and key must have one head size, got ", q.size(3),
              " and ", k.size(3));
  infer.check(k.size(2) == v.size(2), "key and value must have one length, got ", k.size(2),
              " and ", v.size(2));
  infer.check(attrs.dropout_p >= 0 && attrs.dropout_p <= 1,
              "dropout_p must be between 0 and 1, got ", attrs.dropout_p);
  infer.check(!attrs.is_causal || !infer.has(3),
              "attn_mask must not be given together with is_causal");
  if (infer.has(3)) check_mask(infer, infer[3], {q.size(0), q.size(1), q.size(2), k.size(2)});
  if (infer.has(4) || infer.has(5)) check_lengths(infer, attrs);
  const Shape sizes = {q.size(0), q.size(1), q.size(2), v.size(3)};
  infer.output(sizes, strides_like(q, sizes), q.dtype());
  infer.output({q.size(0), q.size(1), q.size(2)}, statistics_dtype(q.dtype()));
}

void infer_backward(Infer& infer, const AttentionAttrs& attrs) {
  for (size_t i : {1u, 2u, 3u})
    infer.output(infer[i].sizes(), strides_like(infer[i], infer[i].sizes()), infer[i].dtype());
  if (attrs.mask_gradient) infer.output(infer[6].sizes(), infer[6].dtype());
}

void attention_vjp(Vjp& vjp, const AttentionAttrs& attrs) {
  // All inputs have dims; one that was left out has none.
  const auto given = [&](size_t i) {
    return i < vjp.input_count() && vjp.input_sizes(i).size() > 0;
  };
  const auto optional = [&](size_t i) { return given(i) ? vjp.input(i) : Tensor(); };
  const Tensor query = vjp.input(0), result = vjp.output(0);
  const Tensor grad = vjp.grad(0).defined() ? vjp.grad(0) : zeros_like(result);
  AttentionAttrs wanted = attrs;
  wanted.mask_gradient = given(3) && vjp.needs(3);
  const Tensor key = vjp.input(1), value = vjp.input(2), logarithms = vjp.output(1);
  const Tensor mask = optional(3), lengths_q = optional(4), lengths_k = optional(5);
  const Tensor grad_logarithms = vjp.grad(1);
  if (logarithms.numel() == 0) {  // no query reads the keys, and the kernels write nothing
    for (size_t i : {0u, 1u, 2u, 3u})
      if (given(i) && vjp.needs(i)) vjp.set(i, zeros_like(vjp.input(i)));
    return;
  }
  const std::initializer_list<Arg> inputs = {
      grad, query, key, value, result, logarithms, mask, lengths_q, lengths_k, grad_logarithms};
  if (!wanted.mask_gradient && vjp.needs(0) && vjp.needs(1) && vjp.needs(2) &&
      packed_attention_backward_op.has_kernel(query.device().type) &&
      are_packed(query, key, value)) {
    const Tensor all = apply(packed_attention_backward_op, inputs, wanted);  // B L 3 H D
    for (size_t i : {0u, 1u, 2u})
      vjp.set(i, transpose(select(all, 2, static_cast<int64_t>(i)), 1, 2));
    return;
  }
  const Tensors grads = apply_all(attention_backward_op, inputs, wanted);
  for (size_t i : {0u, 1u, 2u})
    if (vjp.needs(i)) vjp.set(i, grads[i]);
  if (wanted.mask_gradient) vjp.set(3, grads[3]);
}

// ---- any number of dims ------------------------------------------------------------------------

Shape leading(const Tensor& x, int last) {
  Shape sizes = x.sizes();
  sizes.resize(static_cast<size_t>(std::max(x.dim() - last, 0)));
  return sizes;
}

Shape joined(Shape a, std::initializer_list<int64_t> b) {
  for (int64_t size : b) a.push_back(size);
  return a;
}

// The head count of a tensor; 1 where there is no such dim.
int64_t heads_of(const Tensor& x) { return x.dim() >= 3 ? x.size(-3) : 1; }

/// x: … h n d with leading dims that broadcast to `batch`, as B h n d.
Tensor four_dims(const Tensor& x, const Shape& batch, int64_t heads) {
  const Tensor wide = expand(x, joined(batch, {heads, x.size(-2), x.size(-1)}));
  return wide.dim() == 4 ? wide : reshape(wide, {batch.numel(), heads, x.size(-2), x.size(-1)});
}

/// The mask with four dims; those that broadcast keep the size 1, so that nothing is repeated.
Tensor four_dims_of_mask(const Tensor& mask, const Shape& batch, int64_t heads, int64_t rows,
                         int64_t cols) {
  const Shape whole = joined(batch, {heads, rows, cols});
  check(mask.dim() >= 2 && can_broadcast_to(mask.sizes(), whole),
        "scaled_dot_product_attention: attn_mask of shape ", mask.sizes(),
        " does not broadcast to the shape of the scores ", whole);
  const Shape lead = leading(mask, 3);
  const Shape last = {heads_of(mask), mask.size(-2), mask.size(-1)};
  if (lead.numel() == 1 || batch.size() == 1)
    return reshape(mask, {lead.numel(), last[0], last[1], last[2]});
  const Tensor wide = expand(mask, joined(batch, {last[0], last[1], last[2]}));
  return reshape(wide, {batch.numel(), last[0], last[1], last[2]});
}

void check_operands(const Tensor& query, const Tensor& key, const Tensor& value) {
  constexpr auto op = "scaled_dot_product_attention";
  check(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2, op,
        ": query, key and value must have at least 2 dimensions, got shapes ", query.sizes(), ", ",
        key.sizes(), " and ", value.sizes());
  check(query.is_floating_point() && query.dtype() == key.dtype() && query.dtype() == value.dtype(),
        op, ": query, key and value must have one floating-point dtype, got ", query.dtype(), ", ",
        key.dtype(), " and ", value.dtype());
}

void check_heads(const Tensor& query, const Tensor& key, const Tensor& value) {
  constexpr auto op = "scaled_dot_product_attention";
  check(query.dim() >= 3 && key.dim() >= 3 && value.dim() >= 3, op,
        ": enable_gqa needs a dimension of heads, got shapes ", query.sizes(), ", ", key.sizes(),
        " and ", value.sizes());
  const auto divides = [&](int64_t heads) {
    return heads == 0 ? query.size(-3) == 0 : query.size(-3) % heads == 0;
  };
  check(divides(key.size(-3)) && divides(value.size(-3)), op, ": the heads of key (", key.size(-3),
        ") and value (", value.size(-3), ") must divide those of query (", query.size(-3), ")");
}

// Takes as many random numbers out of the stream as there are probabilities, none without dropout.
AttentionAttrs attributes(bool is_causal, std::optional<double> scale, double dropout_p,
                          int64_t probabilities) {
  const uint64_t counters = dropout_p > 0 ? philox_counters(probabilities, 4) : 0;
  const PhiloxState state = current_generator().reserve(counters);
  return {.is_causal = is_causal,
          .scale = scale,
          .dropout_p = dropout_p,
          .seed = state.seed,
          .offset = state.offset};
}

}  // namespace

bool heads_lie_inside(const Tensor& query) {
  return query.size(1) > 1 && query.size(2) > 1 && query.strides()[1] < query.strides()[2];
}

bool are_packed(const Tensor& query, const Tensor& key, const Tensor& value) {
  if (query.dim() != 4 || query.sizes() != key.sizes() || query.sizes() != value.sizes() ||
      query.numel() == 0)
    return false;
  const int64_t heads = query.size(1), length = query.size(2), size = query.size(3);
  const int64_t part = heads * size;
  const Strides expected = {length * 3 * part, size, 3 * part, 1};
  const Tensor* const all[] = {&query, &key, &value};
  for (int64_t i = 0; i < 3; ++i)
    if (all[i]->strides() != expected || all[i]->impl().storage != query.impl().storage ||
        all[i]->storage_offset() != query.storage_offset() + i * part)
      return false;
  return true;
}

constinit OpDef<AttentionAttrs> attention_op = define(Op<AttentionAttrs>{
    .name = "attention",
    .inputs = {"query", "key", "value", "attn_mask?", "cu_seqlens_q?", "cu_seqlens_k?"},
    .infer = infer_attention,
    .reference = attention_definition,
    .vjp = attention_vjp,
    .saves = Saves{}.rest(in(0) | in(1) | in(2) | in(3) | in(4) | in(5) | out(0) | out(1)),
    .autocast = Autocast::lower,
});

constinit OpDef<AttentionAttrs> attention_backward_op = define(Op<AttentionAttrs>{
    .name = "attention_backward",
    .inputs = {"grad", "query", "key", "value", "result", "logsumexp", "attn_mask?",
               "cu_seqlens_q?", "cu_seqlens_k?", "grad_logsumexp?"},
    .internal = true,
    .infer = infer_backward,
    .reference = attention_backward_definition,
    .gradient = Gradient::by_reference,
});

constinit OpDef<AttentionAttrs> packed_attention_backward_op = define(Op<AttentionAttrs>{
    .name = "packed_attention_backward",
    .inputs = {"grad", "query", "key", "value", "result", "logsumexp", "attn_mask?",
               "cu_seqlens_q?", "cu_seqlens_k?", "grad_logsumexp?"},
    .internal = true,
    .infer =
        [](Infer& infer, const AttentionAttrs&) {
          const Tensor& q = infer[1];
          infer.output({q.size(0), q.size(2), 3, q.size(1), q.size(3)}, q.dtype());
        },
    .reference =
        [](Args in, const AttentionAttrs& attrs) {
          const Tensors grads = detail::apply_all(attention_backward_op, in, &attrs);
          const auto positions_first = [&](size_t i) { return transpose(grads[i], 1, 2); };
          return Tensors{stack({positions_first(0), positions_first(1), positions_first(2)}, 2)};
        },
    .gradient = Gradient::by_reference,
});

void register_attention(OpRegistry& registry) {
  registry.add(attention_op);
  registry.add(attention_backward_op);
  registry.add(packed_attention_backward_op);
  shard_by(attention_op, [](Args in, const AttentionAttrs& attrs) -> std::string_view {
    const auto given = [&](size_t i) { return i < in.size() && in[i]->defined(); };
    if (given(4) || given(5) || attrs.dropout_p != 0) return "";
    if (in[0]->sizes()[1] != in[1]->sizes()[1]) return "b~,b~,b~,b...->b~";  // grouped heads
    return attrs.is_causal ? "bh~,bh~->bh~" : "bhq.,bh..,bh..,bhq.->bhq.,bhq";
  });
}

namespace {

// Attention by its definition, whose dropout drops as PyTorch's does.
Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                          double dropout_p, bool is_causal, std::optional<double> given_scale) {
  const int64_t groups = q.size(1) / k.size(1);
  const Tensor keys = repeat_interleave(k, groups, 1), values = repeat_interleave(v, groups, 1);
  const double scale = given_scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  Tensor scores = matmul(q, transpose(keys, 2, 3)) * scale;
  const Tensor hidden = is_causal
                            ? logical_not(tril(ones({q.size(2), k.size(2)}, {.dtype = kBool})))
                        : mask.defined() && mask.dtype() == kBool ? logical_not(mask)
                                                                  : Tensor();
  if (hidden.defined()) scores = masked_fill(scores, hidden, -INFINITY);
  if (mask.defined() && mask.dtype() != kBool) scores = scores + mask;
  return matmul(dropout(softmax(scores, -1), dropout_p, true), values);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value) {
  return scaled_dot_product_attention(query, key, value, {});
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, bool enable_gqa) {
  constexpr auto op = "scaled_dot_product_attention";
  if (is_autocast_enabled())
    return autocast_call(
        op, Autocast::lower,
        [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
          return scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal, scale,
                                              enable_gqa);
        },
        query, key, value, attn_mask);
  return called_as(op, [&] {
    check_operands(query, key, value);
    check(dropout_p >= 0 && dropout_p <= 1, op, ": dropout_p must be between 0 and 1, got ",
          dropout_p);
    check(!is_causal || !attn_mask.defined(), op,
          ": attn_mask must not be given together with is_causal");
    if (enable_gqa) check_heads(query, key, value);
    const Shape batch = broadcast_shapes(broadcast_shapes(leading(query, 3), leading(key, 3), op),
                                         leading(value, 3), op);
    int64_t heads = heads_of(query), key_heads = heads_of(key), value_heads = heads_of(value);
    if (!enable_gqa) {
      const Shape common = broadcast_shapes(broadcast_shapes(Shape{heads}, Shape{key_heads}, op),
                                            Shape{value_heads}, op);
      heads = key_heads = value_heads = common[0];
    }
    const Tensor q = four_dims(query, batch, heads);
    Tensor k = four_dims(key, batch, key_heads), v = four_dims(value, batch, value_heads);
    if (key_heads != value_heads) {  // rare: each query head then has its own pair
      k = repeat_interleave(k, heads / key_heads, 1);
      v = repeat_interleave(v, heads / value_heads, 1);
    }
    Tensor mask = attn_mask;
    if (mask.defined()) mask = four_dims_of_mask(mask, batch, heads, q.size(2), k.size(2));
    const auto fused = [&] {
      const AttentionAttrs attrs =
          attributes(is_causal, scale, dropout_p, batch.numel() * heads * q.size(2) * k.size(2));
      return apply_all(attention_op, {q, k, v, mask}, attrs)[0];
    };
    const Tensor result = dropout_p > 0 && has_pytorch_numbers(q)
                              ? composed_attention(q, k, v, mask, dropout_p, is_causal, scale)
                              : fused();
    const bool has_heads = std::max({query.dim(), key.dim(), value.dim()}) >= 3;
    Shape sizes = batch;
    if (has_heads) sizes.push_back(heads);
    return reshape(result, joined(sizes, {q.size(2), v.size(3)}));
  });
}

Tensor varlen_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& cu_seqlens_q, const Tensor& cu_seqlens_k,
                        int64_t max_seqlen_q, int64_t max_seqlen_k, double dropout_p,
                        bool is_causal, std::optional<double> scale) {
  constexpr auto op = "varlen_attention";
  return called_as(op, [&] {
    check(query.dim() == 3 && key.dim() == 3 && value.dim() == 3, op,
          ": query, key and value must have 3 dimensions (tokens, heads, head size), got shapes ",
          query.sizes(), ", ", key.sizes(), " and ", value.sizes());
    check(max_seqlen_q >= 0 && max_seqlen_k >= 0, op,
          ": max_seqlen_q and max_seqlen_k must not be negative, got ", max_seqlen_q, " and ",
          max_seqlen_k);
    const auto heads_first = [](const Tensor& x) { return unsqueeze(transpose(x, 0, 1), 0); };
    AttentionAttrs attrs =
        attributes(is_causal, scale, dropout_p, query.size(0) * query.size(1) * max_seqlen_k);
    attrs.max_seqlen_k = max_seqlen_k;
    const Tensor q = heads_first(query), k = heads_first(key), v = heads_first(value), mask;
    const Tensor lengths_q = to(cu_seqlens_q, kInt32), lengths_k = to(cu_seqlens_k, kInt32);
    const Tensor result = apply_all(attention_op, {q, k, v, mask, lengths_q, lengths_k}, attrs)[0];
    return transpose(squeeze(result, 0), 0, 1);
  });
}

}  // namespace tensora

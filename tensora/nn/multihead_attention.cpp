#include "tensora/nn/multihead_attention.h"

#include <cmath>
#include <limits>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/ops.h"

namespace tensora::nn {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

void xavier_uniform(const Tensor& weight) {
  const double bound = std::sqrt(6.0 / static_cast<double>(weight.size(0) + weight.size(1)));
  weight.uniform_(-bound, bound);
}

/// Zero where a mask of forbidden places allows, minus infinity elsewhere; others as they are.
Tensor additive(const Tensor& mask, DType dtype) {
  if (mask.dtype() != kBool) return mask.to(dtype);
  return zeros_like(mask, {.dtype = dtype}).masked_fill(mask, -kInfinite);
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t embed, int64_t heads,
                                       MultiheadAttentionOptions given)
    : embed_dim(embed), num_heads(heads), options(given), out_proj(0, 0) {
  check(embed > 0 && heads > 0 && embed % heads == 0,
        "MultiheadAttention: embed_dim must be a positive multiple of num_heads, got embed_dim=",
        embed, " and num_heads=", heads);
  check(given.dropout >= 0 && given.dropout <= 1,
        "MultiheadAttention: dropout must be between 0 and 1, got ", given.dropout);
  check(given.kdim >= 0 && given.vdim >= 0,
        "MultiheadAttention: kdim and vdim must not be negative, got ", given.kdim, " and ",
        given.vdim);
  if (options.kdim == 0) options.kdim = embed;
  if (options.vdim == 0) options.vdim = embed;
  const TensorOptions made = FactoryScope::current();
  if (options.kdim == embed && options.vdim == embed) {
    in_proj_weight = register_parameter("in_proj_weight", empty({3 * embed, embed}, made));
  } else {
    q_proj_weight = register_parameter("q_proj_weight", empty({embed, embed}, made));
    k_proj_weight = register_parameter("k_proj_weight", empty({embed, options.kdim}, made));
    v_proj_weight = register_parameter("v_proj_weight", empty({embed, options.vdim}, made));
  }
  if (options.bias) in_proj_bias = register_parameter("in_proj_bias", empty({3 * embed}, made));
  if (options.add_bias_kv) {
    bias_k = register_parameter("bias_k", empty({1, 1, embed}, made));
    bias_v = register_parameter("bias_v", empty({1, 1, embed}, made));
  }
  out_proj = register_module("out_proj", Linear(embed, embed, {.bias = options.bias}));
  reset_parameters();
}

void MultiheadAttention::reset_parameters() {
  const no_grad silent;
  for (const Parameter* weight : {&in_proj_weight, &q_proj_weight, &k_proj_weight, &v_proj_weight})
    if (weight->defined()) xavier_uniform(*weight);
  if (in_proj_bias.defined()) {
    in_proj_bias.zero_();
    out_proj.bias.zero_();
  }
  // Xavier's normal distribution over what PyTorch takes for fan-in and fan-out of [1, 1, E].
  const double deviation = std::sqrt(2.0 / static_cast<double>(2 * embed_dim));
  for (const Parameter* bias : {&bias_k, &bias_v})
    if (bias->defined()) bias->normal_(0, deviation);
}

void MultiheadAttention::check_inputs(const Tensor& query, const Tensor& key,
                                      const Tensor& value) const {
  constexpr auto layer = "MultiheadAttention";
  check(query.dim() == 2 || query.dim() == 3, layer,
        ": expected a query of 2 or 3 dimensions, got shape ", query.sizes());
  check(key.dim() == query.dim() && value.dim() == query.dim(), layer,
        ": query, key and value must have one number of dimensions, got shapes ", query.sizes(),
        ", ", key.sizes(), " and ", value.sizes());
  check(
      query.size(-1) == embed_dim && key.size(-1) == options.kdim && value.size(-1) == options.vdim,
      layer, ": expected query, key and value with ", embed_dim, ", ", options.kdim, " and ",
      options.vdim, " features, got shapes ", query.sizes(), ", ", key.sizes(), " and ",
      value.sizes());
  const int steps = options.batch_first && query.dim() == 3 ? 1 : 0;
  check(key.size(steps) == value.size(steps), layer, ": key and value must have one length, got ",
        key.size(steps), " and ", value.size(steps));
  check(query.dim() == 2 || (query.size(1 - steps) == key.size(1 - steps) &&
                             query.size(1 - steps) == value.size(1 - steps)),
        layer, ": query, key and value must have one batch size, got shapes ", query.sizes(), ", ",
        key.sizes(), " and ", value.sizes());
}

// Inputs have a batch. The heads are views of the products, whichever dim comes first.
MultiheadAttention::Heads MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                      const Tensor& value) const {
  const int64_t size = embed_dim / num_heads;
  const auto heads_of = [&](const Tensor& x /* L B E or B L E */) {
    const Tensor split = x.unflatten(-1, {num_heads, size});
    return options.batch_first ? split.transpose(1, 2) : split.permute({1, 2, 0, 3});
  };
  const auto part = [&](const Parameter& tensor, int64_t first, int64_t count) {
    return tensor.defined() ? tensor.narrow(0, first * embed_dim, count * embed_dim) : Tensor();
  };
  if (!in_proj_weight.defined())
    return {heads_of(linear(query, q_proj_weight, part(in_proj_bias, 0, 1))),
            heads_of(linear(key, k_proj_weight, part(in_proj_bias, 1, 1))),
            heads_of(linear(value, v_proj_weight, part(in_proj_bias, 2, 1)))};
  if (query.is_same(key) && key.is_same(value)) {
    const std::vector<Tensor> parts = linear(query, in_proj_weight, in_proj_bias).chunk(3, -1);
    return {heads_of(parts[0]), heads_of(parts[1]), heads_of(parts[2])};
  }
  const Tensor q = linear(query, part(in_proj_weight, 0, 1), part(in_proj_bias, 0, 1));
  if (key.is_same(value)) {
    const std::vector<Tensor> parts =
        linear(key, part(in_proj_weight, 1, 2), part(in_proj_bias, 1, 2)).chunk(2, -1);
    return {heads_of(q), heads_of(parts[0]), heads_of(parts[1])};
  }
  return {heads_of(q), heads_of(linear(key, part(in_proj_weight, 1, 1), part(in_proj_bias, 1, 1))),
          heads_of(linear(value, part(in_proj_weight, 2, 1), part(in_proj_bias, 2, 1)))};
}

/// Both masks as one, B|1 H|1 L S: bool with true where a key takes part, or added to the scores.
Tensor MultiheadAttention::mask_of(const MultiheadAttentionCall& call, int64_t batch,
                                   int64_t queries, int64_t keys) const {
  constexpr auto layer = "MultiheadAttention";
  Tensor mask = call.attn_mask, padding = call.key_padding_mask;
  check(!call.is_causal || !mask.defined(), layer,
        ": attn_mask must not be given together with is_causal");
  if (mask.defined()) {
    const Shape flat = {queries, keys}, full = {batch * num_heads, queries, keys};
    check(mask.sizes() == flat || mask.sizes() == full, layer, ": expected attn_mask of shape ",
          flat, " or ", full, ", got ", mask.sizes());
    mask = mask.dim() == 2 ? mask.view({1, 1, queries, keys})
                           : mask.reshape({batch, num_heads, queries, keys});
  }
  if (padding.defined()) {
    const Shape expected = {batch, keys};
    if (padding.dim() == 1 && batch == 1) padding = padding.unsqueeze(0);
    check(padding.sizes() == expected, layer, ": expected key_padding_mask of shape ", expected,
          ", got ", call.key_padding_mask.sizes());
    padding = padding.reshape({batch, 1, 1, keys});
  }
  for (const Tensor* given : {&mask, &padding})
    check(!given->defined() || given->dtype() == kBool || given->is_floating_point(), layer,
          ": masks must be bool or floating, got ", given->defined() ? given->dtype() : kBool);
  if (call.is_causal && padding.defined())  // one mask says both
    mask = ones({queries, keys}, {.dtype = kBool, .device = padding.device()})
               .triu(1)
               .view({1, 1, queries, keys});
  if (!mask.defined() && !padding.defined()) return {};
  const bool plain = (!mask.defined() || mask.dtype() == kBool) &&
                     (!padding.defined() || padding.dtype() == kBool);
  if (plain) {
    const Tensor hidden = !mask.defined()      ? padding
                          : !padding.defined() ? mask
                                               : logical_or(mask, padding);
    return logical_not(hidden);
  }
  if (!mask.defined()) return padding;
  if (!padding.defined()) return mask;
  const DType dtype = mask.dtype() == kBool ? padding.dtype() : mask.dtype();
  return additive(mask, dtype) + additive(padding, dtype);
}

/// Puts the learned and the zero key and value behind those of the sequence; all queries see them.
void MultiheadAttention::extend(Heads& heads, Tensor& mask) const {
  const int64_t batch = heads.key.size(0), size = embed_dim / num_heads;
  const auto append = [&](Tensor& to, const Tensor& row /* 1 H 1 D */) {
    to = cat({to, row.to(to.dtype()).expand({batch, num_heads, 1, size})}, 2);
  };
  const auto widen = [&] {
    if (!mask.defined()) return;
    Shape sizes = mask.sizes();
    sizes[3] = 1;
    const TensorOptions made{.dtype = mask.dtype(), .device = mask.device()};
    mask = cat({mask, mask.dtype() == kBool ? ones(sizes, made) : zeros(sizes, made)}, 3);
  };
  if (bias_k.defined()) {
    append(heads.key, bias_k.view({1, num_heads, 1, size}));
    append(heads.value, bias_v.view({1, num_heads, 1, size}));
    widen();
  }
  if (options.add_zero_attn) {
    const Tensor row =
        zeros({1, num_heads, 1, size}, {.dtype = heads.key.dtype(), .device = heads.key.device()});
    append(heads.key, row);
    append(heads.value, row);
    widen();
  }
}

std::tuple<Tensor, Tensor> MultiheadAttention::forward(const Tensor& query, const Tensor& key,
                                                       const Tensor& value,
                                                       const MultiheadAttentionCall& call) const {
  check_inputs(query, key, value);
  const bool unbatched = query.dim() == 2;
  if (unbatched) {
    const int64_t dim = options.batch_first ? 0 : 1;
    const Tensor q = query.unsqueeze(dim);
    const Tensor k = key.is_same(query) ? q : key.unsqueeze(dim);
    const Tensor v = value.is_same(key) ? k : value.unsqueeze(dim);
    auto [result, weights] = forward(q, k, v, call);
    return {result.squeeze(dim), weights.defined() ? weights.squeeze(0) : weights};
  }
  Heads heads = project(query, key, value);
  const int64_t batch = heads.query.size(0), queries = heads.query.size(2);
  Tensor mask = mask_of(call, batch, queries, heads.key.size(2));
  bool causal = call.is_causal && !mask.defined();
  if (causal && (call.need_weights || bias_k.defined() || options.add_zero_attn)) {
    mask = ones({1, 1, queries, heads.key.size(2)}, {.dtype = kBool, .device = heads.key.device()})
               .tril();
    causal = false;
  }
  extend(heads, mask);
  const double p = is_training() ? options.dropout : 0;
  Tensor result, weights;
  if (call.need_weights) {
    const double scale = 1 / std::sqrt(static_cast<double>(embed_dim / num_heads));
    Tensor scores = matmul(heads.query * scale, heads.key.transpose(-2, -1));
    if (mask.defined())
      scores = mask.dtype() == kBool ? scores.masked_fill(logical_not(mask), -kInfinite)
                                     : scores + mask.to(scores.dtype());
    weights = dropout(softmax(scores, -1), p, p > 0);
    result = matmul(weights, heads.value);
  } else {
    if (mask.defined() && mask.dtype() != kBool) mask = mask.to(heads.query.dtype());
    result = scaled_dot_product_attention(heads.query, heads.key, heads.value, mask, p, causal);
  }
  // B H L D back to the order of dims of the query.
  const Tensor joined =
      (options.batch_first ? result.transpose(1, 2) : result.permute({2, 0, 1, 3})).flatten(-2);
  if (weights.defined() && call.average_attn_weights) weights = weights.mean(1);
  return {out_proj(joined), weights};
}

}  // namespace tensora::nn

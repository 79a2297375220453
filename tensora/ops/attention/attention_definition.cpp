// Registers nothing: these are the definitions of the ops in attention.cpp.

#include "tensora/ops/attention/attention_definition.h"

#include <cmath>
#include <limits>

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/random/random.h"

namespace tensora {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Operands {
  Tensor query, key, value, mask, lengths_q, lengths_k;  // query, key, value in the compute dtype
  AttentionAttrs attrs;

  double scale() const {
    return attrs.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  }
  TensorOptions integers() const { return {.dtype = kInt64, .device = query.device()}; }
};

DType compute_dtype(DType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

// a: B H m k with b: B G k n, where head h meets head h / (H / G).
Tensor by_head(const Tensor& a, const Tensor& b) {
  const int64_t heads = a.size(1), groups = b.size(1);
  if (heads == groups) return matmul(a, b);
  const Tensor grouped = reshape(a, {a.size(0), groups, heads / groups, a.size(2), a.size(3)});
  return reshape(matmul(grouped, unsqueeze(b, 2)), {a.size(0), heads, a.size(2), b.size(3)});
}

// B H n d, summed over the heads that share one of key and value: B G n d.
Tensor sum_of_groups(const Tensor& x, int64_t groups) {
  const int64_t heads = x.size(1);
  if (heads == groups) return x;
  return sum(reshape(x, {x.size(0), groups, heads / groups, x.size(2), x.size(3)}), {2});
}

// For each of `count` packed tokens its sequence, and its position there.
struct Places {
  Tensor sequence, position;
};
Places places_of(const Tensor& lengths, int64_t count, const TensorOptions& options) {
  const Tensor tokens = arange(count, options), starts = to(lengths, kInt64);
  const Tensor ends = narrow(starts, 0, 1, starts.size(0) - 1);
  const Tensor sequence = sum(to(ge(unsqueeze(tokens, 1), unsqueeze(ends, 0)), kInt64), {1});
  return {sequence, tokens - index_select(starts, 0, sequence)};
}

// Which pairs of query and key meet: L S, or undefined if all do.
Tensor allowed_pairs(const Operands& in) {
  const int64_t rows = in.query.size(2), cols = in.key.size(2);
  Places q, k;
  Tensor allowed;
  if (in.lengths_q.defined()) {
    q = places_of(in.lengths_q, rows, in.integers());
    k = places_of(in.lengths_k, cols, in.integers());
    allowed = eq(unsqueeze(q.sequence, 1), unsqueeze(k.sequence, 0));
  } else if (in.attrs.is_causal) {
    q.position = arange(rows, in.integers());
    k.position = arange(cols, in.integers());
  }
  if (!in.attrs.is_causal) return allowed;
  const Tensor causal = ge(unsqueeze(q.position, 1), unsqueeze(k.position, 0));
  return allowed.defined() ? logical_and(allowed, causal) : causal;
}

struct Softmax {
  Tensor probabilities, logsumexp;  // B H L S, B H L
};

Softmax softmax_of(const Operands& in) {
  Tensor scores = by_head(in.query * in.scale(), transpose(in.key, 2, 3));
  const auto hide = [&](const Tensor& visible) {
    scores = where(visible, scores,
                   full({}, -kInfinity, {.dtype = scores.dtype(), .device = scores.device()}));
  };
  if (const Tensor allowed = allowed_pairs(in); allowed.defined()) hide(allowed);
  if (in.mask.defined()) {
    if (in.mask.dtype() == kBool)
      hide(in.mask);
    else
      scores = scores + to(in.mask, scores.dtype());
  }
  if (scores.size(3) == 0) {
    Shape sizes = scores.sizes();
    sizes.resize(3);
    return {scores, full(sizes, -kInfinity, {.dtype = scores.dtype(), .device = scores.device()})};
  }
  const Tensor most = amax(scores, {3}, true).detach();
  const Tensor base = where(eq(most, -kInfinity), zeros_like(most), most);
  const Tensor exponentials = exp(scores - base);
  const Tensor total = sum(exponentials, {3}, true);
  const Tensor divisor = where(eq(total, 0), ones_like(total), total);
  return {exponentials / divisor, squeeze(log(total) + base, 3)};
}

// What the probabilities are multiplied with: B H L S, or undefined without dropout.
Tensor dropout_factors(const Operands& in) {
  const AttentionAttrs& attrs = in.attrs;
  if (attrs.dropout_p == 0) return {};
  const bool packed = in.lengths_q.defined();
  const Tensor &q = in.query, &k = in.key;
  const no_grad silent;
  const Tensor kept =
      empty({q.size(0), q.size(1), q.size(2), packed ? attrs.max_seqlen_k : k.size(2)},
            {.dtype = q.dtype(), .device = q.device()});
  apply_inplace(bernoulli_op, {kept},
                {.seed = attrs.seed, .offset = attrs.offset, .p = 1 - attrs.dropout_p});
  const Tensor factors = kept * (attrs.dropout_p == 1 ? 0 : 1 / (1 - attrs.dropout_p));
  if (!packed) return factors;
  return index_select(factors, 3, places_of(in.lengths_k, k.size(2), in.integers()).position);
}

Tensor optional(Args in, size_t i) { return i < in.size() ? *in[i] : Tensor(); }

}  // namespace

Tensors attention_definition(Args in, const AttentionAttrs& attrs) {
  const DType dtype = in[0]->dtype(), wide = compute_dtype(dtype);
  const Operands operands{to(*in[0], wide),
                          to(*in[1], wide),
                          to(*in[2], wide),
                          optional(in, 3),
                          optional(in, 4),
                          optional(in, 5),
                          attrs};
  const Softmax softmax = softmax_of(operands);
  const Tensor factors = dropout_factors(operands);
  const Tensor weights =
      factors.defined() ? softmax.probabilities * factors : softmax.probabilities;
  Tensor result = to(by_head(weights, operands.value), dtype);
  if (heads_lie_inside(*in[0])) result = transpose(transpose(result, 1, 2).contiguous(), 1, 2);
  return Tensors{result, softmax.logsumexp};
}

Tensors attention_backward_definition(Args in, const AttentionAttrs& attrs) {
  const DType dtype = in[1]->dtype(), wide = compute_dtype(dtype);
  const Operands operands{to(*in[1], wide),
                          to(*in[2], wide),
                          to(*in[3], wide),
                          optional(in, 6),
                          optional(in, 7),
                          optional(in, 8),
                          attrs};
  const Tensor grad = to(*in[0], wide), p = softmax_of(operands).probabilities;
  const Tensor factors = dropout_factors(operands);
  const int64_t groups = operands.key.size(1);
  Tensor grad_p = by_head(grad, transpose(operands.value, 2, 3));
  if (factors.defined()) grad_p = grad_p * factors;
  Tensor grad_scores = p * (grad_p - sum(grad_p * p, {3}, true));
  if (const Tensor of_sums = optional(in, 9); of_sums.defined())
    grad_scores = grad_scores + p * unsqueeze(to(of_sums, wide), 3);
  const Tensor weights = factors.defined() ? p * factors : p;
  const Tensor scaled_scores = grad_scores * operands.scale();
  const auto turned = [](const Tensor& x) { return transpose(x, 2, 3); };
  Tensors result;
  result.push_back(to(by_head(scaled_scores, operands.key), dtype));
  result.push_back(to(sum_of_groups(matmul(turned(scaled_scores), operands.query), groups), dtype));
  result.push_back(to(sum_of_groups(matmul(turned(weights), grad), groups), dtype));
  if (attrs.mask_gradient) {
    Dims broadcast;
    for (int d = 0; d < 4; ++d)
      if (operands.mask.size(d) == 1) broadcast.push_back(d);
    const Tensor summed = broadcast.empty() ? grad_scores : sum(grad_scores, broadcast, true);
    result.push_back(to(summed, operands.mask.dtype()));
  }
  return result;
}

}  // namespace tensora

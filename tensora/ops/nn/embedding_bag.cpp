#include "tensora/ops/nn/embedding_bag.h"

#include <limits>

#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/nn/embedding.h"
#include "tensora/ops/nn/embedding_bag_op.h"
#include "tensora/ops/nn/embedding_op.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/max_dim.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

DType wide_dtype(DType dtype) { return promote_types(dtype, kFloat32); }

bool is_index(const Tensor& x) { return x.dtype() == kInt64 || x.dtype() == kInt32; }

void infer_bag(Infer& infer, const EmbeddingBagAttrs& attrs) {
  const Tensor &weight = infer[0], &indices = infer[1], &offsets = infer[2];
  infer.check(weight.dim() == 2 && weight.is_floating_point(),
              "expected a floating-point weight [rows, columns], got ", weight.dtype(),
              " of shape ", weight.sizes());
  infer.check(indices.dim() == 1 && is_index(indices),
              "expected a vector of indices of dtype int64 or int32, got ", indices.dtype(),
              " of shape ", indices.sizes());
  infer.check(offsets.dim() == 1 && is_index(offsets),
              "expected a vector of offsets of dtype int64 or int32, got ", offsets.dtype(),
              " of shape ", offsets.sizes());
  infer.check(!attrs.include_last_offset || offsets.size(0) > 0,
              "include_last_offset needs at least one offset");
  if (infer.has(3)) {
    infer.check(attrs.mode == BagMode::sum, "per_sample_weights are for the mode \"sum\" alone");
    infer.check(infer[3].sizes() == indices.sizes() && infer[3].dtype() == weight.dtype(),
                "expected per_sample_weights of dtype ", weight.dtype(), " and shape ",
                indices.sizes(), ", got ", infer[3].dtype(), " of shape ", infer[3].sizes());
  }
  const int64_t bags = offsets.size(0) - attrs.include_last_offset;
  const int64_t width = weight.size(1);
  infer.output({bags, width}, weight.dtype());
  infer.output(indices.sizes(), kInt64);
  infer.output({bags}, wide_dtype(weight.dtype()));
  infer.output({attrs.mode == BagMode::max ? bags : 0, width}, kInt64);
}

// Which bag each index is in, by comparing its position with every offset.
Tensor bags_of(const Tensor& indices, const Tensor& offsets, const EmbeddingBagAttrs& attrs) {
  const Tensor place = arange(indices.size(0), {.dtype = kInt64, .device = indices.device()});
  const Tensor begun = unsqueeze(place, 1) >= unsqueeze(to(offsets, kInt64), 0);
  Tensor bag = sum(to(begun, kInt64), {1}) - 1;
  const int64_t bags = offsets.size(0) - attrs.include_last_offset;
  const Tensor out = logical_or(bag >= bags, to(indices, kInt64) == attrs.padding_idx);
  return where(out, -1, bag);
}

Tensors bag_reference(Args in, const EmbeddingBagAttrs& attrs) {
  const Tensor &weight = *in[0], &indices = *in[1], &offsets = *in[2];
  const int64_t bags = offsets.size(0) - attrs.include_last_offset, width = weight.size(1);
  const DType wide = wide_dtype(weight.dtype());
  const Device device = weight.device();
  if (offsets.numel() > 0) {
    const auto first = narrow(offsets, 0, 0, 1).item<int64_t>();
    check(first == 0, "embedding_bag: the first offset must be 0, got ", first);
  }
  const Tensor bag = bags_of(indices, offsets, attrs);
  const Tensor counted = to(unsqueeze(bag, 1) == arange(bags, {.device = device}), wide);  // [L, B]
  const Tensor counts = sum(counted, {0});
  Tensor rows = to(index_select(weight, 0, indices), wide);
  if (in.size() > 3 && in[3]->defined()) rows = rows * to(unsqueeze(*in[3], 1), wide);
  const Tensor member = unsqueeze(counted, 2);  // [L, B, 1]
  Tensor result, chosen = empty({0, width}, {.dtype = kInt64, .device = device});
  if (attrs.mode != BagMode::max) {
    result = sum(where(member != 0, unsqueeze(rows, 1), 0), {0});
    if (attrs.mode == BagMode::mean) result = result / unsqueeze(clamp_min(counts, 1), 1);
  } else if (indices.numel() == 0) {
    result = zeros({bags, width}, {.dtype = wide, .device = device});
    chosen = zeros({bags, width}, {.dtype = kInt64, .device = device});
  } else {
    const double lowest = -std::numeric_limits<double>::infinity();
    const auto [top, position] = max(where(member != 0, unsqueeze(rows, 1), lowest), 0);
    const Tensor some = unsqueeze(counts > 0, 1);
    result = where(some, top, 0);
    chosen = where(
        some, reshape(index_select(to(indices, kInt64), 0, ravel(position)), {bags, width}), 0);
  }
  return Tensors{to(result, weight.dtype()), bag, counts, chosen};
}

void bag_vjp(Vjp& vjp, const EmbeddingBagAttrs& attrs) {
  if (!vjp.grad(0).defined()) return;
  const Shape& weight = vjp.input_sizes(0);
  const Tensor &grad = vjp.grad(0), indices = vjp.input(1);
  const Tensor bag = vjp.output(1), counts = vjp.output(2);
  const bool weighted = vjp.input_count() > 3 && !vjp.input_sizes(3).empty();
  if (counts.numel() == 0) {  // indices without a bag: the one offset is the end
    if (vjp.needs(0)) vjp.set(0, zeros(weight, {.dtype = grad.dtype(), .device = grad.device()}));
    if (weighted && vjp.needs(3)) vjp.set(3, zeros_like(vjp.input(3)));
    return;
  }
  const Tensor row = clamp_min(bag, 0);
  if (vjp.needs(0) && attrs.mode == BagMode::max) {
    const Tensor counted = where(unsqueeze(counts > 0, 1), grad, 0);
    vjp.set(0, apply(gather_backward_op, {counted, vjp.output(3)}, {weight, 0}));
  } else if (vjp.needs(0)) {
    Tensor scale;
    if (weighted) scale = to(vjp.input(3), wide_dtype(grad.dtype()));
    if (attrs.mode == BagMode::mean) scale = index_select(reciprocal(clamp_min(counts, 1)), 0, row);
    if (attrs.scale_grad_by_freq) {
      const Tensor rare = rarity_of(indices, weight[0], grad);
      scale = scale.defined() ? scale * rare : rare;
    }
    const EmbeddingBackwardAttrs back{weight[0], attrs.padding_idx};
    vjp.set(0, attrs.sparse ? sparse_rows(grad, indices, bag, scale, back)
                            : apply(embedding_backward_op, {grad, indices, bag, scale}, back));
  }
  if (!weighted || !vjp.needs(3)) return;
  const Tensor products = index_select(vjp.input(0), 0, indices) * index_select(grad, 0, row);
  vjp.set(3, where(bag >= 0, sum(products, {1}), 0));
}

BagMode parse_mode(std::string_view mode) {
  const auto names = names_of(std::type_identity<BagMode>{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == mode) return static_cast<BagMode>(i);
  throw ValueError(
      concat("embedding_bag: mode must be \"sum\", \"mean\" or \"max\", got \"", mode, "\""));
}

}  // namespace

constinit OpDef<EmbeddingBagAttrs> embedding_bag_op = define(Op<EmbeddingBagAttrs>{
    .name = "embedding_bag",
    .inputs = {"weight", "indices", "offsets", "per_sample_weights?"},
    .infer = infer_bag,
    .reference = bag_reference,
    .vjp = bag_vjp,
    .saves =
        {in(1) | in(3) | out(1) | out(2) | out(3), {}, {}, in(0) | in(1) | in(3) | out(1) | out(2)},
});

void register_embedding_bag(OpRegistry& registry) { registry.add(embedding_bag_op); }

Tensor embedding_bag(const Tensor& input, const Tensor& weight, const Tensor& offsets,
                     std::optional<double> max_norm, double norm_type, bool scale_grad_by_freq,
                     std::string_view mode, bool sparse, const Tensor& per_sample_weights,
                     bool include_last_offset, std::optional<int64_t> padding_idx) {
  constexpr std::string_view op = "embedding_bag";
  check_as<ValueError>(weight.dim() == 2, op, ": expected a weight [rows, columns], got shape ",
                       weight.sizes());
  const int64_t padding = wrapped_padding(op, padding_idx, weight.size(0));
  // As in PyTorch the rows of a matrix end their bags themselves.
  const bool ended = include_last_offset && input.dim() != 2;
  const EmbeddingBagAttrs attrs{parse_mode(mode), ended, padding, scale_grad_by_freq, sparse};
  check_as<ValueError>(!sparse || attrs.mode != BagMode::max, op,
                       ": the gradient of the mode \"max\" cannot be sparse");
  check_as<ValueError>(!scale_grad_by_freq || attrs.mode != BagMode::max, op,
                       ": scale_grad_by_freq is not supported for the mode \"max\"");
  const bool weighted = per_sample_weights.defined();
  check_as<NotImplementedError>(!weighted || attrs.mode == BagMode::sum, op,
                                ": per_sample_weights are for the mode \"sum\" alone");
  if (weighted)
    check_as<ValueError>(per_sample_weights.sizes() == input.sizes(), op,
                         ": expected per_sample_weights of shape ", input.sizes(), ", got ",
                         per_sample_weights.sizes());
  Tensor indices = input, starts = offsets, factors = per_sample_weights;
  if (input.dim() == 2) {
    check_as<ValueError>(!offsets.defined(), op,
                         ": a matrix of indices has no offsets: its rows are the bags");
    const TensorOptions options{.dtype = kInt64, .device = input.device()};
    starts = arange(input.size(0), options) * input.size(1);
    indices = ravel(input);
    if (weighted) factors = ravel(factors);
  } else {
    check_as<ValueError>(input.dim() == 1, op,
                         ": expected a vector or a matrix of indices, got shape ", input.sizes());
    check_as<ValueError>(offsets.defined(), op, ": a vector of indices needs offsets");
  }
  if (max_norm) embedding_renorm_(weight, indices, *max_norm, norm_type);
  if (weighted) return apply_all(embedding_bag_op, {weight, indices, starts, factors}, attrs)[0];
  return apply_all(embedding_bag_op, {weight, indices, starts}, attrs)[0];
}

}  // namespace tensora

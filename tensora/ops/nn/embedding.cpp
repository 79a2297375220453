#include "tensora/ops/nn/embedding.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/index/nonzero.h"
#include "tensora/ops/nn/embedding_op.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/p_norm.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/sparse/sparse_parts.h"

namespace tensora {
namespace {

void check_weight(const Infer& infer, const Tensor& weight) {
  infer.check(weight.dim() == 2, "expected a weight [rows, columns], got shape ", weight.sizes());
}

void check_indices(const Infer& infer, const Tensor& indices) {
  infer.check(indices.dtype() == kInt64 || indices.dtype() == kInt32,
              "expected indices of dtype int64 or int32, got ", indices.dtype());
}

Tensors embedding_backward_reference(Args in, const EmbeddingBackwardAttrs& attrs) {
  const Tensor &grad = *in[0], indices = to(*in[1], kInt64);
  const bool has_rows = in.size() > 2 && in[2]->defined();
  const bool has_scale = in.size() > 3 && in[3]->defined();
  Tensor counts = indices != attrs.padding_idx;
  Tensor values = grad;
  if (has_rows) {
    const Tensor rows = to(*in[2], kInt64);
    counts = logical_and(counts, rows >= 0);
    values = index_select(grad, 0, clamp_min(rows, 0));
  }
  if (has_scale) values = values * to(unsqueeze(*in[3], 1), grad.dtype());
  values = where(unsqueeze(counts, 1), values, 0);
  const Tensor zero =
      zeros({attrs.num_embeddings, grad.size(1)}, {.dtype = grad.dtype(), .device = grad.device()});
  return Tensors{index_add(zero, 0, where(counts, indices, 0), values)};
}

}  // namespace

constinit OpDef<EmbeddingAttrs> embedding_op = define(Op<EmbeddingAttrs>{
    .name = "embedding",
    .inputs = {"weight", "indices"},
    .infer =
        [](Infer& infer, const EmbeddingAttrs&) {
          check_weight(infer, infer[0]);
          check_indices(infer, infer[1]);
          Shape sizes = infer[1].sizes();
          sizes.push_back(infer[0].size(1));
          infer.output(sizes, infer[0].dtype());
        },
    .reference =
        [](Args in, const EmbeddingAttrs&) {
          Shape sizes = in[1]->sizes();
          sizes.push_back(in[0]->size(1));
          return Tensors{reshape(index_select(*in[0], 0, ravel(*in[1])), sizes)};
        },
    .vjp =
        [](Vjp& vjp, const EmbeddingAttrs& attrs) {
          const Shape& weight = vjp.input_sizes(0);
          const Tensor indices = vjp.input(1);
          const Tensor rows = reshape(vjp.grad(), {indices.numel(), weight[1]});
          const Tensor places = ravel(indices);
          const Tensor scale =
              attrs.scale_grad_by_freq ? rarity_of(places, weight[0], rows) : Tensor();
          const EmbeddingBackwardAttrs back{weight[0], attrs.padding_idx};
          vjp.set(0, attrs.sparse
                         ? sparse_rows(rows, places, Tensor(), scale, back)
                         : apply(embedding_backward_op, {rows, places, Tensor(), scale}, back));
        },
    .saves = {in(1)},
    .accepts = kElementDTypes,
});

constinit OpDef<EmbeddingBackwardAttrs> embedding_backward_op = define(Op<EmbeddingBackwardAttrs>{
    .name = "embedding_backward",
    .inputs = {"grad", "indices", "rows?", "scale?"},
    .internal = true,
    .infer =
        [](Infer& infer, const EmbeddingBackwardAttrs& attrs) {
          infer.output({attrs.num_embeddings, infer[0].size(1)}, infer[0].dtype());
        },
    .reference = embedding_backward_reference,
    .gradient = Gradient::by_reference,
});

void register_embedding(OpRegistry& registry) {
  registry.add(embedding_op);
  registry.add(embedding_backward_op);
  shard_by(embedding_op, [](Args, const EmbeddingAttrs& attrs) -> std::string_view {
    return attrs.scale_grad_by_freq ? "" : ".e,*->*e";
  });
}

int64_t wrapped_padding(std::string_view op, std::optional<int64_t> padding_idx, int64_t rows) {
  if (!padding_idx) return -1;
  check(*padding_idx >= -rows && *padding_idx < rows, op, ": padding_idx must be within ", rows,
        " rows, got ", *padding_idx);
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

Tensor rarity_of(const Tensor& indices, int64_t rows, const Tensor& like) {
  const TensorOptions options{.dtype = promote_types(like.dtype(), kFloat32),
                              .device = like.device()};
  const Tensor counts =
      index_add(zeros({rows}, options), 0, indices, ones({indices.numel()}, options));
  return reciprocal(index_select(counts, 0, indices));
}

Tensor sparse_rows(const Tensor& grad, const Tensor& indices, const Tensor& rows,
                   const Tensor& scale, const EmbeddingBackwardAttrs& attrs) {
  Tensor places = to(indices, kInt64), values = grad, factors = scale, from = rows;
  // What does not count gets no entry: an optimizer of rows would change that row.
  Tensor counts;
  if (attrs.padding_idx >= 0) counts = places != attrs.padding_idx;
  if (rows.defined()) counts = counts.defined() ? logical_and(counts, rows >= 0) : rows >= 0;
  if (counts.defined() && !counts.is_meta()) {
    const Tensor chosen = ravel(nonzero(counts));
    places = index_select(places, 0, chosen);
    if (from.defined())
      from = index_select(from, 0, chosen);
    else
      values = index_select(values, 0, chosen);
    if (factors.defined()) factors = index_select(factors, 0, chosen);
  }
  if (from.defined()) values = index_select(values, 0, from);
  if (factors.defined()) values = values * to(unsqueeze(factors, 1), values.dtype());
  return make_sparse({unsqueeze(places, 0), values}, {attrs.num_embeddings, grad.size(1)});
}

const Tensor& embedding_renorm_(const Tensor& weight, const Tensor& indices, double max_norm,
                                double norm_type) {
  return called_as("embedding_renorm_", [&]() -> const Tensor& {
    const no_grad silent;
    const Tensor places = ravel(indices);
    const Tensor rows = index_select(weight, 0, places);
    const Tensor length = norm(rows, norm_type, {1}, true, promote_types(rows.dtype(), kFloat32));
    const Tensor factor = where(length > max_norm, max_norm / (length + 1e-7), 1.0);
    // A row that occurs twice is written twice, with the same values.
    return index_copy_(weight, 0, places, to(rows * factor, rows.dtype()));
  });
}

Tensor embedding(const Tensor& input, const Tensor& weight, std::optional<int64_t> padding_idx,
                 std::optional<double> max_norm, double norm_type, bool scale_grad_by_freq,
                 bool sparse) {
  check(weight.dim() == 2, "embedding: expected a weight [rows, columns], got shape ",
        weight.sizes());
  const int64_t padding = wrapped_padding("embedding", padding_idx, weight.size(0));
  if (max_norm) embedding_renorm_(weight, input, *max_norm, norm_type);
  return apply(embedding_op, {weight, input}, {padding, scale_grad_by_freq, sparse});
}

}  // namespace tensora

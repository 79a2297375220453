#pragma once

// Internal header: the ops behind embedding and embedding_bag.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (weight [V, D], indices) -> the rows, in the shape of the indices and D.
struct EmbeddingAttrs {
  int64_t padding_idx = -1;  // gets no gradient
  bool scale_grad_by_freq = false;
  bool sparse = false;  // the gradient is
};
constexpr auto describe(std::type_identity<EmbeddingAttrs>) {
  using A = EmbeddingAttrs;
  return fields(field("padding_idx", &A::padding_idx),
                field("scale_grad_by_freq", &A::scale_grad_by_freq), field("sparse", &A::sparse));
}
extern OpDef<EmbeddingAttrs> embedding_op;

/// (grad [R, D], indices [L], rows? [L], scale? [L]) -> the sums [V, D] of the gradient's rows that
/// belong to each index: row i, or rows[i], of the gradient, times scale[i], goes to indices[i].
/// Rows below 0 and the index `padding_idx` are left out. In order of i on every device.
struct EmbeddingBackwardAttrs {
  int64_t num_embeddings = 0;
  int64_t padding_idx = -1;
};
constexpr auto describe(std::type_identity<EmbeddingBackwardAttrs>) {
  using A = EmbeddingBackwardAttrs;
  return fields(field("num_embeddings", &A::num_embeddings), field("padding_idx", &A::padding_idx));
}
extern OpDef<EmbeddingBackwardAttrs> embedding_backward_op;

/// A row that may count from the end, or -1 if none is given; throws if there is no such row.
int64_t wrapped_padding(std::string_view op, std::optional<int64_t> padding_idx, int64_t rows);
/// 1 / how often each of the indices occurs, of the dtype in which `like` is summed.
Tensor rarity_of(const Tensor& indices, int64_t rows, const Tensor& like);
/// What `embedding_backward` computes, as a sparse gradient.
Tensor sparse_rows(const Tensor& grad, const Tensor& indices, const Tensor& rows,
                   const Tensor& scale, const EmbeddingBackwardAttrs& attrs);

}  // namespace tensora

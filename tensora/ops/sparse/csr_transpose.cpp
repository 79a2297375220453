#include "tensora/ops/sparse/csr_transpose.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/sort/searchsorted.h"
#include "tensora/ops/sort/sort.h"

namespace tensora {

constexpr auto describe(std::type_identity<CsrTransposeAttrs>) {
  return fields(field("columns", &CsrTransposeAttrs::columns));
}

namespace {

TensorOptions indices_of(const Tensor& like) { return {.dtype = kInt64, .device = like.device()}; }

void infer_transpose(Infer& infer, const CsrTransposeAttrs& attrs) {
  const Tensor &crow = infer[0], &col = infer[1];
  infer.check(attrs.columns >= 0, "columns must not be negative, got ", attrs.columns);
  infer.check(crow.dim() == 1 && crow.numel() > 0 && crow.dtype() == kInt64,
              "crow_indices must be a 1-D int64 tensor with an element more than there are rows, "
              "got shape ",
              crow.sizes(), " and dtype ", crow.dtype());
  infer.check(col.dim() == 1 && col.dtype() == kInt64,
              "col_indices must be a 1-D int64 tensor, got shape ", col.sizes(), " and dtype ",
              col.dtype());
  infer.check(crow.is_contiguous() && col.is_contiguous(), "expected contiguous indices");
  infer.output({add_sizes(attrs.columns, 1, infer.op)}, kInt64);
  infer.output(col.sizes(), kInt64);
  infer.output(col.sizes(), kInt64);
}

Tensors transpose_reference(Args in, const CsrTransposeAttrs& attrs) {
  const auto [columns, order] = sort(*in[1], 0, false, true);
  const Tensor rows = csr_row_indices(*in[0], in[1]->numel());
  const Tensor begins = searchsorted(columns, arange(attrs.columns + 1, indices_of(columns)));
  return Tensors{begins, index_select(rows, 0, order), order};
}

}  // namespace

constinit OpDef<CsrTransposeAttrs> csr_transpose_op = define(Op<CsrTransposeAttrs>{
    .name = "csr_transpose",
    .inputs = {"crow_indices", "col_indices"},
    .infer = infer_transpose,
    .reference = transpose_reference,
    .gradient = Gradient::not_differentiable,
});

void register_csr_transpose(OpRegistry& registry) { registry.add(csr_transpose_op); }

std::tuple<Tensor, Tensor, Tensor> csr_transpose(const Tensor& crow_indices,
                                                 const Tensor& col_indices, int64_t columns) {
  const Tensors all =
      apply_all(csr_transpose_op, {contiguous(crow_indices), contiguous(col_indices)}, {columns});
  return {all[0], all[1], all[2]};
}

Tensor csr_row_indices(const Tensor& crow_indices, int64_t nnz) {
  return searchsorted(crow_indices, arange(nnz, indices_of(crow_indices)), false, true) - 1;
}

}  // namespace tensora

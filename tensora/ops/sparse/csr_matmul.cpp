#include "tensora/ops/sparse/csr_matmul.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/sparse/csr_transpose.h"

namespace tensora {
namespace {

constexpr bool is_half(DType dtype) { return dtype == kFloat16 || dtype == kBFloat16; }

DType sum_dtype(DType dtype) { return is_half(dtype) ? kFloat32 : dtype; }

bool rows_are_runs(const Tensor& matrix) {
  return matrix.numel() == 0 || matrix.size(1) == 1 || matrix.stride(1) == 1;
}

Tensor with_rows_as_runs(const Tensor& matrix) {
  return matrix.dim() != 2 || rows_are_runs(matrix) ? matrix : contiguous(matrix);
}

// The rules of both ops; input 3 is the dense matrix whose rows the columns name.
void check_pattern(const Infer& infer) {
  const Tensor &crow = infer[0], &col = infer[1], &dense = infer[3];
  infer.check(crow.dim() == 1 && crow.numel() > 0 && crow.dtype() == kInt64,
              "crow_indices must be a 1-D int64 tensor with an element more than there are rows, "
              "got shape ",
              crow.sizes(), " and dtype ", crow.dtype());
  infer.check(col.dim() == 1 && col.dtype() == kInt64,
              "col_indices must be a 1-D int64 tensor, got shape ", col.sizes(), " and dtype ",
              col.dtype());
  infer.check(infer[2].dtype() == dense.dtype(), "expected one dtype, got ", infer[2].dtype(),
              " and ", dense.dtype());
  infer.check(dense.dtype() != kBool, "expected numbers, got ", dense.dtype());
  infer.check(dense.dim() == 2 && rows_are_runs(dense),
              "expected a matrix whose rows are contiguous, got shape ", dense.sizes());
  infer.check(crow.is_contiguous() && col.is_contiguous(), "expected contiguous indices");
}

void infer_matmul(Infer& infer, const NoAttrs&) {
  check_pattern(infer);
  infer.check(infer[2].sizes() == infer[1].sizes() && infer[2].is_contiguous(),
              "expected a contiguous value for each of ", infer[1].numel(),
              " column indices, got shape ", infer[2].sizes());
  infer.output({infer[0].numel() - 1, infer[3].size(1)}, infer[3].dtype());
}

void infer_sampled(Infer& infer, const NoAttrs&) {
  check_pattern(infer);
  const int64_t rows = infer[0].numel() - 1;
  infer.check(infer[2].dim() == 2 && infer[2].size(0) == rows && rows_are_runs(infer[2]),
              "expected a matrix of ", rows, " contiguous rows, got shape ", infer[2].sizes());
  infer.check(infer[2].size(1) == infer[3].size(1), "expected rows of one length, got shapes ",
              infer[2].sizes(), " and ", infer[3].sizes());
  infer.output(infer[1].sizes(), infer[3].dtype());
}

Tensors matmul_reference(Args in, const NoAttrs&) {
  const Tensor &values = *in[2], &dense = *in[3];
  const DType wide = sum_dtype(dense.dtype());
  const Tensor rows = csr_row_indices(*in[0], in[1]->numel());
  const Tensor terms = unsqueeze(to(values, wide), 1) * index_select(to(dense, wide), 0, *in[1]);
  const Tensor none =
      zeros({in[0]->numel() - 1, dense.size(1)}, {.dtype = wide, .device = dense.device()});
  return Tensors{to(index_add(none, 0, rows, terms), dense.dtype())};
}

Tensors sampled_reference(Args in, const NoAttrs&) {
  const Tensor &mat1 = *in[2], &mat2 = *in[3];
  const DType wide = sum_dtype(mat2.dtype());
  const Tensor rows = csr_row_indices(*in[0], in[1]->numel());
  const Tensor products =
      index_select(to(mat1, wide), 0, rows) * index_select(to(mat2, wide), 0, *in[1]);
  return Tensors{to(sum(products, {1}), mat2.dtype())};
}

// The transposed matrix of such entries times a dense one.
Tensor transposed_matmul(const Tensor& crow, const Tensor& col, int64_t columns,
                         const Tensor& values, const Tensor& dense) {
  const auto [begins, rows, order] = csr_transpose(crow, col, columns);
  return csr_matmul(begins, rows, index_select(values, 0, order), dense);
}

void matmul_vjp(Vjp& vjp, const NoAttrs&) {
  const Tensor crow = vjp.input(0), col = vjp.input(1);
  if (vjp.needs(2)) vjp.set(2, csr_sampled_matmul(crow, col, vjp.grad(), conj(vjp.input(3))));
  if (vjp.needs(3))
    vjp.set(3, transposed_matmul(crow, col, vjp.input_sizes(3)[0], conj(vjp.input(2)), vjp.grad()));
}

void sampled_vjp(Vjp& vjp, const NoAttrs&) {
  const Tensor crow = vjp.input(0), col = vjp.input(1);
  if (vjp.needs(2)) vjp.set(2, csr_matmul(crow, col, vjp.grad(), conj(vjp.input(3))));
  if (vjp.needs(3))
    vjp.set(3, transposed_matmul(crow, col, vjp.input_sizes(3)[0], vjp.grad(), conj(vjp.input(2))));
}

constexpr Slots kPattern = in(0) | in(1);

}  // namespace

constinit OpDef<NoAttrs> csr_matmul_op = define(Op<NoAttrs>{
    .name = "csr_matmul",
    .inputs = {"crow_indices", "col_indices", "values", "dense"},
    .infer = infer_matmul,
    .reference = matmul_reference,
    .vjp = matmul_vjp,
    .saves = {Slots{}, Slots{}, kPattern | in(3), kPattern | in(2)},
    .autocast = Autocast::widest,
    .accepts = kComputingDTypes,
});

constinit OpDef<NoAttrs> csr_sampled_matmul_op = define(Op<NoAttrs>{
    .name = "csr_sampled_matmul",
    .inputs = {"crow_indices", "col_indices", "mat1", "mat2"},
    .infer = infer_sampled,
    .reference = sampled_reference,
    .vjp = sampled_vjp,
    .saves = {Slots{}, Slots{}, kPattern | in(3), kPattern | in(2)},
    .autocast = Autocast::widest,
    .accepts = kComputingDTypes,
});

void register_csr_matmul(OpRegistry& registry) {
  registry.add(csr_matmul_op);
  registry.add(csr_sampled_matmul_op);
}

Tensor csr_matmul(const Tensor& crow_indices, const Tensor& col_indices, const Tensor& values,
                  const Tensor& dense) {
  return apply(csr_matmul_op, {contiguous(crow_indices), contiguous(col_indices),
                               contiguous(values), with_rows_as_runs(dense)});
}

Tensor csr_sampled_matmul(const Tensor& crow_indices, const Tensor& col_indices, const Tensor& mat1,
                          const Tensor& mat2) {
  return apply(csr_sampled_matmul_op, {contiguous(crow_indices), contiguous(col_indices),
                                       with_rows_as_runs(mat1), with_rows_as_runs(mat2)});
}

}  // namespace tensora

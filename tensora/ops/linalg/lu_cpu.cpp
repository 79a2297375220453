// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/linalg/lu.h"

#include <numeric>
#include <vector>

#include "tensora/backend/cpu/copy.h"
#include "tensora/backend/cpu/dense.h"
#include "tensora/ops/linalg/batch.h"
#include "tensora/ops/linalg/infos.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class T>
MatrixView<T> matrix_at(const View& view, int64_t offset) {
  return {view.as<T>() + offset, view.strides[view.dim() - 2], view.strides[view.dim() - 1]};
}

// Matrices that one thread takes at a time: enough work to be worth handing out.
int64_t grain(int64_t work) { return std::max<int64_t>(1, 8192 / (work + 1)); }

template <class T>
std::vector<int32_t> factorise(const View& LU /* … m n */, const View& pivots, bool pivot) {
  const int64_t m = LU.sizes[LU.dim() - 2], n = LU.sizes[LU.dim() - 1];
  const Shape batch = batch_sizes(LU);
  const BatchOffsets offsets(LU, batch), pivot_offsets(pivots, batch, 1);
  std::vector<int32_t> infos(static_cast<size_t>(batch.numel()));
  for_each_matrix(batch.numel(), grain(m * n * std::min(m, n)), [&](int64_t i) {
    infos[static_cast<size_t>(i)] = static_cast<int32_t>(
        factorise_lu(matrix_at<T>(LU, offsets[i]), m, n, pivots.as<int32_t>() + pivot_offsets[i],
                     pivots.strides[pivots.dim() - 1], pivot));
  });
  return infos;
}

void lu_factor_kernel(const KernelContext& context, const LuAttrs& attrs) {
  const View& LU = context.output(0);
  copy_elements(context.input(0), LU);
  const std::vector<int32_t> infos = LU.dtype == DType::float64
                                         ? factorise<double>(LU, context.output(1), attrs.pivot)
                                         : factorise<float>(LU, context.output(1), attrs.pivot);
  if (!attrs.check_errors_as.empty()) check_infos(attrs.check_errors_as, infos, LU.dim() > 2);
  std::copy(infos.begin(), infos.end(), context.output(2).as<int32_t>());
}

void check_pivots(const View& pivots, const Shape& batch, const BatchOffsets& offsets, int64_t n) {
  for (int64_t i = 0; i < batch.numel(); ++i)
    for (int64_t k = 0; k < pivots.sizes[pivots.dim() - 1]; ++k) {
      const int32_t pivot = pivots.as<int32_t>()[offsets[i] + k * pivots.strides[pivots.dim() - 1]];
      check(pivot >= 1 && pivot <= n, "linalg.lu_solve: pivots must be between 1 and ", n, ", got ",
            pivot);
    }
}

template <class T>
void solve(const View& LU /* … n n */, const View& pivots /* … n */, const View& X /* … n m */,
           bool adjoint) {
  constexpr int64_t kColumns = 256;  // of one thread: fixed, because products round by their shapes
  const int64_t n = X.sizes[X.dim() - 2], m = X.sizes[X.dim() - 1];
  const Shape batch = batch_sizes(X);
  const BatchOffsets lu_offsets(LU, batch), pivot_offsets(pivots, batch, 1), x_offsets(X, batch);
  check_pivots(pivots, batch, pivot_offsets, n);
  const int64_t stride = pivots.strides[pivots.dim() - 1];
  const int64_t pieces = (m + kColumns - 1) / kColumns;
  for_each_matrix(batch.numel() * pieces, 1, [&](int64_t item) {
    const int64_t i = item / pieces, first = item % pieces * kColumns;
    const int64_t columns = std::min(kColumns, m - first);
    const int32_t* const rows = pivots.as<int32_t>() + pivot_offsets[i];
    const MatrixView<T> a = matrix_at<T>(LU, lu_offsets[i]);
    const MatrixView<T> x = block_at(matrix_at<T>(X, x_offsets[i]), 0, first);
    if (adjoint) {
      solve_triangle(flipped(a), x, n, columns, {.upper = false});
      solve_triangle(flipped(a), x, n, columns, {.upper = true, .unit = true});
      apply_pivots(x, columns, rows, stride, 0, n, true);
    } else {
      apply_pivots(x, columns, rows, stride, 0, n);
      solve_triangle(a, x, n, columns, {.upper = false, .unit = true});
      solve_triangle(a, x, n, columns, {.upper = true});
    }
  });
}

void lu_solve_kernel(const KernelContext& context, const LuSolveAttrs& attrs) {
  const View& X = context.output();
  if (X.numel == 0) return;
  copy_elements(context.input(2), X);
  if (X.dtype == DType::float64)
    solve<double>(context.input(0), context.input(1), X, attrs.adjoint);
  else
    solve<float>(context.input(0), context.input(1), X, attrs.adjoint);
}

void permutation_kernel(const KernelContext& context, const PermutationAttrs& attrs) {
  const View &pivots = context.input(0), &out = context.output();
  const Shape batch = batch_sizes(out, 1);
  const BatchOffsets pivot_offsets(pivots, batch, 1);
  for (int64_t i = 0; i < batch.numel(); ++i) {
    int64_t* const order = out.as<int64_t>() + i * attrs.rows;
    std::iota(order, order + attrs.rows, int64_t{0});
    for (int64_t k = 0; k < pivots.sizes[pivots.dim() - 1]; ++k) {
      const int32_t* const row = pivots.as<int32_t>() + pivot_offsets[i];
      const int64_t other = int64_t{row[k * pivots.strides[pivots.dim() - 1]]} - 1;
      check(other >= 0 && other < attrs.rows, context.op, ": pivots must be between 1 and ",
            attrs.rows, ", got ", other + 1);
      std::swap(order[k], order[other]);
    }
  }
}

}  // namespace

void register_lu_cpu() {
  lu_factor_op.set_kernel(DeviceType::cpu, lu_factor_kernel);
  lu_solve_op.set_kernel(DeviceType::cpu, lu_solve_kernel);
  pivots_to_permutation_op.set_kernel(DeviceType::cpu, permutation_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

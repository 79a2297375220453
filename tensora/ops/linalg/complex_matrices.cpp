// Registers nothing: functions of other ops.
#include "tensora/ops/linalg/complex_matrices.h"

#include <algorithm>

#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/linalg/linalg_common.h"
#include "tensora/ops/linalg/triangular.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/max_dim.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora::linalg {
namespace {

Shape with_matrix(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

/// The row numbers with `k` and the row `chosen` of each matrix exchanged.
Tensor exchanged(int64_t rows, int64_t k, const Tensor& chosen) {
  const Tensor all = arange(rows, {.dtype = kInt64, .device = chosen.device()});
  const Tensor other = unsqueeze(chosen, -1);
  return where(eq(all, k), other, where(eq(all, other), k, all));
}

}  // namespace

Tensor as_real_matrix(const Tensor& A) {
  const Tensor re = real(A), im = imag(A);
  const Tensor blocks = stack({stack({re, -im}, -1), stack({im, re}, -1)}, -3);
  return reshape(blocks, with_matrix(batch_of(A), 2 * A.size(-2), 2 * A.size(-1)));
}

Tensor as_symmetric_matrix(const Tensor& A) {
  const Tensor re = real(A), on_diagonal = identity(A.size(-1), re) == 1;
  return as_real_matrix(where(on_diagonal, to(re, A.dtype()), A));
}

Tensor as_real_columns(const Tensor& B) {
  return reshape(transpose(view_as_real(B), -2, -1),
                 with_matrix(batch_of(B), 2 * B.size(-2), B.size(-1)));
}

Tensor from_real_columns(const Tensor& X) {
  Shape sizes = batch_of(X);
  sizes.push_back(X.size(-2) / 2);
  sizes.push_back(2);
  sizes.push_back(X.size(-1));
  return view_as_complex(contiguous(transpose(reshape(X, sizes), -2, -1)));
}

Tensor from_real_matrix(const Tensor& M) { return from_real_columns(slice(M, -1, 0, {}, 2)); }

Tensor halved_count(const Tensor& count) { return to(floor_divide(count + 1, 2), count.dtype()); }

Tensor solve_complex_triangular(const Tensor& A, const Tensor& B, bool upper, bool unitriangular) {
  // With 1 on the diagonal the real matrix is triangular: its blocks there are unit matrices.
  const Tensor on_diagonal = identity(A.size(-1), real(A)) == 1;
  if (unitriangular)
    return from_real_columns(solve_triangular(as_real_matrix(where(on_diagonal, 1, A)),
                                              as_real_columns(B), upper, true, true));
  const Tensor scale = unsqueeze(diagonals(A), -1);
  return solve_complex_triangular(A / scale, B / scale, upper, true);
}

Tensors factorise_complex(const Tensor& A, bool pivot) {
  const int64_t m = A.size(-2), n = A.size(-1), steps = std::min(m, n);
  const TensorOptions counts{.dtype = kInt64, .device = A.device()};
  Tensor LU = A, info = zeros(batch_of(A), counts);
  std::vector<Tensor> pivots;
  for (int64_t k = 0; k < steps; ++k) {
    Tensor chosen = full(batch_of(A), k, counts);
    if (pivot) {  // by the sum of the parts' magnitudes, as LAPACK does
      const Tensor column = select(slice(LU.detach(), -2, k), -1, k);
      chosen = argmax(abs(real(column)) + abs(imag(column)), -1) + k;
      const Tensor order = unsqueeze(exchanged(m, k, chosen), -1);
      LU = gather(LU, -2, expand(order, A.sizes()));
    }
    pivots.push_back(chosen + 1);
    const Tensor top = slice(LU, -2, k, k + 1), below = slice(LU, -2, k + 1);
    const Tensor divisor = slice(top, -1, k, k + 1), is_zero = eq(divisor, 0);
    info = where(logical_and(eq(info, 0), reshape(is_zero, info.sizes())), k + 1, info);
    const Tensor factor = slice(below, -1, k, k + 1) / where(is_zero, 1, divisor);
    const Tensor rest = slice(below, -1, k + 1) - factor * slice(top, -1, k + 1);
    LU = cat({slice(LU, -2, 0, k + 1), cat({slice(below, -1, 0, k), factor, rest}, -1)}, -2);
  }
  const Tensor order = pivots.empty() ? zeros(with_matrix(batch_of(A), 0, 1), counts) : Tensor();
  return {LU.shares_storage(A) ? clone(A) : LU,
          to(pivots.empty() ? squeeze(order, {-1}) : stack(pivots, -1), kInt32), to(info, kInt32)};
}

}  // namespace tensora::linalg

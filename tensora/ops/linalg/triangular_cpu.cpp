// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/linalg/triangular.h"

#include "tensora/backend/cpu/copy.h"
#include "tensora/backend/cpu/dense.h"
#include "tensora/ops/linalg/batch.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// So many right-hand sides are solved for by one thread. The number is fixed: the products inside
// round by their shapes.
constexpr int64_t kColumns = 256;

template <class T>
void solve(const View& A /* … n n */, const View& X /* … n m */, Triangle kind) {
  const int rows = X.dim() - 2, cols = X.dim() - 1;
  const int64_t n = X.sizes[rows], m = X.sizes[cols];
  const Shape batch = batch_sizes(X);
  const BatchOffsets a_offsets(A, batch), x_offsets(X, batch);
  const int64_t pieces = (m + kColumns - 1) / kColumns;
  for_each_matrix(batch.numel() * pieces, 1, [&](int64_t item) {
    const int64_t index = item / pieces, first = item % pieces * kColumns;
    const MatrixView<T> a{A.as<T>() + a_offsets[index], A.strides[A.dim() - 2],
                          A.strides[A.dim() - 1]};
    const MatrixView<T> x{X.as<T>() + x_offsets[index], X.strides[rows], X.strides[cols]};
    solve_triangle(a, block_at(x, 0, first), n, std::min(kColumns, m - first), kind);
  });
}

void solve_triangular_kernel(const KernelContext& context, const TriangularAttrs& attrs) {
  const View &A = context.input(0), &X = context.output();
  if (X.numel == 0) return;
  copy_elements(context.input(1), X);
  // X A = B is A^T X^T = B^T.
  const View a = attrs.left ? A : tensora::flipped(A), x = attrs.left ? X : tensora::flipped(X);
  const Triangle kind{.upper = attrs.upper == attrs.left, .unit = attrs.unitriangular};
  if (X.dtype == DType::float64)
    solve<double>(a, x, kind);
  else
    solve<float>(a, x, kind);
}

}  // namespace

void register_triangular_cpu() {
  solve_triangular_op.set_kernel(DeviceType::cpu, solve_triangular_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

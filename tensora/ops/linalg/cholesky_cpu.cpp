// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/linalg/cholesky.h"

#include <vector>

#include "tensora/backend/cpu/dense.h"
#include "tensora/ops/linalg/batch.h"
#include "tensora/ops/linalg/infos.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// The lower triangle alone, or the upper one turned around; zeros elsewhere.
template <class T>
void copy_triangle(MatrixView<T> from, MatrixView<T> to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) *to.at(i, j) = *from.at(i, j);
    for (int64_t j = i + 1; j < n; ++j) *to.at(i, j) = 0;
  }
}

template <class T>
void clear_above(MatrixView<T> x, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) *x.at(i, j) = 0;
}

template <class T>
std::vector<int32_t> factorise(const View& A /* … n n */, const View& L /* … n n */) {
  const int64_t n = L.sizes[L.dim() - 1];
  const Shape batch = batch_sizes(L);
  const BatchOffsets a_offsets(A, batch), l_offsets(L, batch);
  std::vector<int32_t> infos(static_cast<size_t>(batch.numel()));
  for_each_matrix(batch.numel(), std::max<int64_t>(1, 4096 / (n * n * n + 1)), [&](int64_t i) {
    const MatrixView<T> a{A.as<T>() + a_offsets[i], A.strides[A.dim() - 2], A.strides[A.dim() - 1]};
    const MatrixView<T> l{L.as<T>() + l_offsets[i], L.strides[L.dim() - 2], L.strides[L.dim() - 1]};
    copy_triangle(a, l, n);
    infos[static_cast<size_t>(i)] = static_cast<int32_t>(factorise_cholesky(l, n));
    clear_above(l, n);  // the products write whole blocks
  });
  return infos;
}

void cholesky_kernel(const KernelContext& context, const CholeskyAttrs& attrs) {
  // A = U^T U: the lower factor of A read by columns, written by columns.
  const View A = attrs.upper ? tensora::flipped(context.input(0)) : context.input(0);
  const View L = attrs.upper ? tensora::flipped(context.output(0)) : context.output(0);
  const std::vector<int32_t> infos =
      L.dtype == DType::float64 ? factorise<double>(A, L) : factorise<float>(A, L);
  if (!attrs.check_errors_as.empty()) check_infos(attrs.check_errors_as, infos, L.dim() > 2);
  std::copy(infos.begin(), infos.end(), context.output(1).as<int32_t>());
}

}  // namespace

void register_cholesky_cpu() { cholesky_op.set_kernel(DeviceType::cpu, cholesky_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA

// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/linalg/qr.h"

#include <vector>

#include "tensora/backend/cpu/copy.h"
#include "tensora/backend/cpu/gemm_installed.h"
#include "tensora/backend/cpu/lapack.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/linalg/batch.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

int narrow(int64_t value) { return static_cast<int>(value); }

/// A matrix of a batch as a view of its own.
View matrix_at(View view, int64_t offset) {
  const int rows = view.dim() - 2;
  view.data = view.as<char>() + offset * static_cast<int64_t>(element_size(view.dtype));
  view.sizes = {view.sizes[rows], view.sizes[rows + 1]};
  view.strides = {view.strides[rows], view.strides[rows + 1]};
  view.update();
  return view;
}

/// One matrix; Q and R are stored by columns. `Q` is null where it is not wanted.
template <class T>
void decompose(const Lapack<T>& functions, const View& A /* m n */, T* Q, int64_t columns, T* R) {
  const int64_t m = A.sizes[0], n = A.sizes[1], k = std::min(m, n);
  std::vector<T> factors(static_cast<size_t>(m * n)), tau(static_cast<size_t>(k) + 1);
  View copy = A;
  copy.data = factors.data();
  copy.strides = {1, m};
  copy.update();
  if (A.numel > 0) copy_elements(A, copy);
  const int rows = narrow(m), cols = narrow(n), ld = std::max(rows, 1), small = narrow(k);
  const int q_cols = narrow(columns), query = -1;
  T wanted[2] = {1, 1};
  int info = 0;
  if (k > 0) functions.geqrf(&rows, &cols, factors.data(), &ld, tau.data(), wanted, &query, &info);
  if (Q && m > 0 && columns > 0)
    functions.orgqr(&rows, &q_cols, &small, Q, &ld, tau.data(), wanted + 1, &query, &info);
  std::vector<T> work(static_cast<size_t>(std::max(wanted[0], wanted[1])) + 1);
  const int size = narrow(static_cast<int64_t>(work.size()));
  if (k > 0)
    functions.geqrf(&rows, &cols, factors.data(), &ld, tau.data(), work.data(), &size, &info);
  ensure(info == 0, "linalg.qr: geqrf returned ", info);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < columns; ++i)
      R[j * columns + i] = i <= j ? factors[static_cast<size_t>(j * m + i)] : T(0);
  if (!Q || m == 0 || columns == 0) return;
  const int64_t kept = std::min(columns, n) * m;
  std::copy(factors.begin(), factors.begin() + kept, Q);
  std::fill(Q + kept, Q + columns * m, T(0));
  functions.orgqr(&rows, &q_cols, &small, Q, &ld, tau.data(), work.data(), &size, &info);
  ensure(info == 0, "linalg.qr: orgqr returned ", info);
}

template <class T>
void run(const KernelContext& context, bool with_q) {
  const View &A = context.input(0), &Q = context.output(0), &R = context.output(1);
  const Shape batch = batch_sizes(A);
  const int64_t m = A.sizes[A.dim() - 2], n = A.sizes[A.dim() - 1];
  const int64_t columns = R.sizes[R.dim() - 2];
  const BatchOffsets offsets(A, batch);
  const Lapack<T>& functions = lapack<T>("linalg.qr");
  const OpenBlasOnThisThread scope;
  parallel_for(batch.numel(), std::max<int64_t>(1, 8192 / (m * n * n + 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   decompose<T>(functions, matrix_at(A, offsets[i]),
                                with_q ? Q.as<T>() + i * m * columns : nullptr, columns,
                                R.as<T>() + i * columns * n);
               });
}

void qr_kernel(const KernelContext& context, const QrAttrs& attrs) {
  const bool with_q = attrs.mode != QrMode::r;
  if (context.input(0).dtype == DType::float64)
    run<double>(context, with_q);
  else
    run<float>(context, with_q);
}

}  // namespace

void register_qr_cpu() { qr_op.set_kernel(DeviceType::cpu, qr_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA

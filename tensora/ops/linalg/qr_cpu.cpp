// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/linalg/qr.h"

#include <cstring>
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
void decompose(const Lapack& lapack, const View& A /* m n */, char* Q, int64_t columns, char* R) {
  const int64_t m = A.sizes[0], n = A.sizes[1], k = std::min(m, n);
  const size_t bytes = element_size(A.dtype), column = static_cast<size_t>(m) * bytes;
  std::vector<char> factors(static_cast<size_t>(n) * column);
  std::vector<char> tau(static_cast<size_t>(k + 1) * bytes);
  View copy = A;
  copy.data = factors.data();
  copy.strides = {1, m};
  copy.update();
  if (A.numel > 0) copy_elements(A, copy);
  if (k > 0) {
    const int info = lapack.factorise_qr(narrow(m), narrow(n), factors.data(), tau.data());
    ensure(info == 0, "linalg.qr: geqrf returned ", info);
  }
  std::memset(R, 0, static_cast<size_t>(columns * n) * bytes);
  for (int64_t j = 0; j < n; ++j)  // on and above the diagonal
    std::memcpy(R + static_cast<size_t>(j * columns) * bytes,
                factors.data() + static_cast<size_t>(j) * column,
                static_cast<size_t>(std::min(j + 1, columns)) * bytes);
  if (!Q || m == 0 || columns == 0) return;
  const size_t kept = static_cast<size_t>(std::min(columns, n)) * column;
  std::memcpy(Q, factors.data(), kept);
  std::memset(Q + kept, 0, static_cast<size_t>(columns) * column - kept);
  const int info = lapack.form_q(narrow(m), narrow(columns), narrow(k), Q, tau.data());
  ensure(info == 0, "linalg.qr: orgqr returned ", info);
}

void qr_kernel(const KernelContext& context, const QrAttrs& attrs) {
  const View &A = context.input(0), &Q = context.output(0), &R = context.output(1);
  const Shape batch = batch_sizes(A);
  const int64_t m = A.sizes[A.dim() - 2], n = A.sizes[A.dim() - 1];
  const int64_t columns = R.sizes[R.dim() - 2];
  const auto bytes = static_cast<int64_t>(element_size(A.dtype));
  const BatchOffsets offsets(A, batch);
  const Lapack lapack(A.dtype, "linalg.qr");
  const OpenBlasOnThisThread scope;
  parallel_for(
      batch.numel(), std::max<int64_t>(1, 8192 / (m * n * n + 1)), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          decompose(lapack, matrix_at(A, offsets[i]),
                    attrs.mode == QrMode::r ? nullptr : Q.as<char>() + i * m * columns * bytes,
                    columns, R.as<char>() + i * columns * n * bytes);
      });
}

}  // namespace

void register_qr_cpu() { qr_op.set_kernel(DeviceType::cpu, qr_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA

// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/linalg/svd.h"

#include <cmath>
#include <vector>

#include "tensora/backend/cpu/copy.h"
#include "tensora/backend/cpu/gemm_installed.h"
#include "tensora/backend/cpu/lapack.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/linalg/batch.h"
#include "tensora/ops/linalg/infos.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

int narrow(int64_t value) { return static_cast<int>(value); }

/// Copies matrix number `index` of a batch, column by column.
template <class T>
void copy_columns(const View& A, const BatchOffsets& offsets, int64_t index, T* to) {
  const int rows = A.dim() - 2;
  View from = A, copy = A;
  from.data = A.as<T>() + offsets[index];
  from.sizes = {A.sizes[rows], A.sizes[rows + 1]};
  from.strides = {A.strides[rows], A.strides[rows + 1]};
  from.update();
  copy.data = to;
  copy.sizes = from.sizes;
  copy.strides = {1, from.sizes[0]};
  copy.update();
  copy_elements(from, copy);
}

/// Runs body(i) for the matrices of a batch and returns what it returns, LAPACK's status numbers. A
/// negative one means that an argument, the matrix, is not finite.
template <class Body>
std::vector<int32_t> for_each_matrix(int64_t count, int64_t work, const Body& body) {
  std::vector<int32_t> infos(static_cast<size_t>(count));
  const OpenBlasOnThisThread scope;
  parallel_for(count, std::max<int64_t>(1, 8192 / (work + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) infos[static_cast<size_t>(i)] = std::abs(body(i));
  });
  return infos;
}

template <class T>
void run_svd(const KernelContext& context, const SvdAttrs& attrs) {
  const View &A = context.input(0), &U = context.output(0), &S = context.output(1),
             &Vh = context.output(2);
  const Shape batch = batch_sizes(A);
  const int64_t m = A.sizes[A.dim() - 2], n = A.sizes[A.dim() - 1], k = std::min(m, n);
  const int64_t u_cols = attrs.full_matrices ? m : k, v_rows = attrs.full_matrices ? n : k;
  const BatchOffsets offsets(A, batch);
  const Lapack<T>& functions = lapack<T>("linalg.svd");
  const char job = !attrs.compute_uv ? 'N' : attrs.full_matrices ? 'A' : 'S';
  const auto one = [&](int64_t i) -> int {
    std::vector<T> copy(static_cast<size_t>(m * n));
    std::vector<int> integers(static_cast<size_t>(8 * k));
    copy_columns(A, offsets, i, copy.data());
    T* const u = attrs.compute_uv ? U.as<T>() + i * m * u_cols : nullptr;
    T* const vh = attrs.compute_uv ? Vh.as<T>() + i * v_rows * n : nullptr;
    const int rows = narrow(m), cols = narrow(n), ld_v = narrow(v_rows), query = -1;
    T wanted = 0;
    int info = 0;
    const auto call = [&](T* work, const int& size) {
      functions.gesdd(&job, &rows, &cols, copy.data(), &rows, S.as<T>() + i * k, u, &rows, vh,
                      &ld_v, work, &size, integers.data(), &info, 1);
    };
    call(&wanted, query);
    std::vector<T> work(static_cast<size_t>(wanted) + 1);
    call(work.data(), narrow(static_cast<int64_t>(work.size())));
    return info;
  };
  check_infos("linalg.svd", for_each_matrix(batch.numel(), m * n * k, one), A.dim() > 2);
}

/// Unit matrices: the vectors of matrices without elements.
template <class T>
void set_identity(const View& view) {
  if (view.dim() < 2) return;
  const int64_t rows = view.sizes[view.dim() - 2], cols = view.sizes[view.dim() - 1];
  for (int64_t i = 0; i < view.numel; ++i) view.as<T>()[i] = i % (rows * cols) % (rows + 1) == 0;
}

void svd_kernel(const KernelContext& context, const SvdAttrs& attrs) {
  const bool wide = context.input(0).dtype == DType::float64;
  if (context.input(0).numel == 0) {
    for (const size_t output : {0, 2})
      wide ? set_identity<double>(context.output(output))
           : set_identity<float>(context.output(output));
    return;
  }
  wide ? run_svd<double>(context, attrs) : run_svd<float>(context, attrs);
}

template <class T>
void run_eigh(const KernelContext& context, const EighAttrs& attrs) {
  const View &A = context.input(0), &L = context.output(0), &V = context.output(1);
  const Shape batch = batch_sizes(A);
  const int64_t n = A.sizes[A.dim() - 1];
  const BatchOffsets offsets(A, batch);
  const Lapack<T>& functions = lapack<T>("linalg.eigh");
  const char job = attrs.compute_v ? 'V' : 'N', triangle = attrs.upper ? 'U' : 'L';
  const auto one = [&](int64_t i) -> int {
    std::vector<T> copy(static_cast<size_t>(attrs.compute_v ? 0 : n * n));
    T* const matrix = attrs.compute_v ? V.as<T>() + i * n * n : copy.data();
    copy_columns(A, offsets, i, matrix);
    const int size = narrow(n);
    int info = 0;
    std::vector<T> work(1);
    std::vector<int> integers(1);
    const auto call = [&](int lwork, int liwork) {
      functions.syevd(&job, &triangle, &size, matrix, &size, L.as<T>() + i * n, work.data(), &lwork,
                      integers.data(), &liwork, &info, 1, 1);
    };
    call(-1, -1);
    work.resize(static_cast<size_t>(work[0]) + 1);
    integers.resize(static_cast<size_t>(integers[0]));
    call(narrow(static_cast<int64_t>(work.size())), narrow(static_cast<int64_t>(integers.size())));
    return info;
  };
  check_infos("linalg.eigh", for_each_matrix(batch.numel(), n * n * n, one), A.dim() > 2);
}

void eigh_kernel(const KernelContext& context, const EighAttrs& attrs) {
  if (context.input(0).numel == 0) return;
  if (context.input(0).dtype == DType::float64)
    run_eigh<double>(context, attrs);
  else
    run_eigh<float>(context, attrs);
}

}  // namespace

void register_svd_cpu() {
  svd_op.set_kernel(DeviceType::cpu, svd_kernel);
  eigh_op.set_kernel(DeviceType::cpu, eigh_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

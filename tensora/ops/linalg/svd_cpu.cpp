// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/linalg/svd.h"

#include <cstdlib>
#include <cstring>
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

/// The address of an element that has this offset; null where there are none.
char* at(const View& view, int64_t offset) {
  return view.numel == 0
             ? nullptr
             : view.as<char>() + offset * static_cast<int64_t>(element_size(view.dtype));
}

/// Copies matrix number `index` of a batch, column by column.
void copy_columns(const View& A, const BatchOffsets& offsets, int64_t index, void* to) {
  const int rows = A.dim() - 2;
  View from = A, copy = A;
  from.data = at(A, offsets[index]);
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

/// Unit matrices: the vectors of matrices without elements.
void set_identity(const View& view) {
  if (view.dim() < 2 || view.numel == 0) return;
  const int64_t rows = view.sizes[view.dim() - 2], cols = view.sizes[view.dim() - 1];
  std::memset(view.data, 0, view.bytes());
  for (int64_t matrix = 0; matrix < view.numel; matrix += rows * cols)
    for (int64_t i = 0; i < std::min(rows, cols); ++i) {
      char* const real_part = at(view, matrix + i * (rows + 1));
      if (real_dtype(view.dtype) == DType::float64)
        *reinterpret_cast<double*>(real_part) = 1;
      else
        *reinterpret_cast<float*>(real_part) = 1;
    }
}

void svd_kernel(const KernelContext& context, const SvdAttrs& attrs) {
  const View &A = context.input(0), &U = context.output(0), &S = context.output(1),
             &Vh = context.output(2);
  if (A.numel == 0) {
    set_identity(U);
    return set_identity(Vh);
  }
  const Shape batch = batch_sizes(A);
  const int64_t m = A.sizes[A.dim() - 2], n = A.sizes[A.dim() - 1], k = std::min(m, n);
  const int64_t u_cols = attrs.full_matrices ? m : k, v_rows = attrs.full_matrices ? n : k;
  const BatchOffsets offsets(A, batch);
  const Lapack lapack(A.dtype, "linalg.svd");
  const char job = !attrs.compute_uv ? 'N' : attrs.full_matrices ? 'A' : 'S';
  const auto one = [&](int64_t i) {
    std::vector<char> copy(static_cast<size_t>(m * n) * element_size(A.dtype));
    copy_columns(A, offsets, i, copy.data());
    return lapack.decompose_svd(job, narrow(m), narrow(n), copy.data(), at(S, i * k),
                                at(U, i * m * u_cols), at(Vh, i * v_rows * n));
  };
  check_infos("linalg.svd", for_each_matrix(batch.numel(), m * n * k, one), A.dim() > 2);
}

void eigh_kernel(const KernelContext& context, const EighAttrs& attrs) {
  const View &A = context.input(0), &L = context.output(0), &V = context.output(1);
  if (A.numel == 0) return;
  const Shape batch = batch_sizes(A);
  const int64_t n = A.sizes[A.dim() - 1];
  const BatchOffsets offsets(A, batch);
  const Lapack lapack(A.dtype, "linalg.eigh");
  const char job = attrs.compute_v ? 'V' : 'N', triangle = attrs.upper ? 'U' : 'L';
  const auto one = [&](int64_t i) {
    std::vector<char> copy(attrs.compute_v ? 0
                                           : static_cast<size_t>(n * n) * element_size(A.dtype));
    void* const matrix = attrs.compute_v ? at(V, i * n * n) : copy.data();
    copy_columns(A, offsets, i, matrix);
    return lapack.decompose_symmetric(job, triangle, narrow(n), matrix, at(L, i * n));
  };
  check_infos("linalg.eigh", for_each_matrix(batch.numel(), n * n * n, one), A.dim() > 2);
}

}  // namespace

void register_svd_cpu() {
  svd_op.set_kernel(DeviceType::cpu, svd_kernel);
  eigh_op.set_kernel(DeviceType::cpu, eigh_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/linalg/eig.h"

#include <cstdlib>
#include <cstring>
#include <span>
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

char* at(const View& view, int64_t element) {
  return view.as<char>() + element * static_cast<int64_t>(element_size(view.dtype));
}

/// Matrix number `index` of a batch into `to`, column by column.
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

template <class Body>
void for_each_matrix(int64_t count, int64_t work, const Body& body) {
  const OpenBlasOnThisThread scope;
  parallel_for(count, std::max<int64_t>(1, 8192 / (work + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

/// LAPACK would not return for infinities and NaN.
template <class T>
bool is_finite(const void* data, int64_t count) {
  T sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<const T*>(data)[i] * T(0);
  return sum == T(0);
}
void check_finite(const View& A, const void* matrix, int64_t n) {
  const int64_t count = n * n * (is_complex(A.dtype) ? 2 : 1);
  check(real_dtype(A.dtype) == DType::float64 ? is_finite<double>(matrix, count)
                                              : is_finite<float>(matrix, count),
        "linalg.eig: input tensor should not contain infs or NaNs.");
}

void eig_kernel(const KernelContext& context, const EigAttrs& attrs) {
  const View &A = context.input(0), &L = context.output(0), &V = context.output(1);
  if (A.numel == 0) return;
  const Shape batch = batch_sizes(A);
  const int64_t n = A.sizes[A.dim() - 1];
  const BatchOffsets offsets(A, batch);
  const Lapack lapack(A.dtype, "linalg.eig");
  std::vector<int32_t> infos(static_cast<size_t>(batch.numel()));
  for_each_matrix(batch.numel(), n * n * n, [&](int64_t i) {
    std::vector<char> copy(static_cast<size_t>(n * n) * element_size(A.dtype));
    copy_columns(A, offsets, i, copy.data());
    check_finite(A, copy.data(), n);
    infos[static_cast<size_t>(i)] = std::abs(lapack.decompose_general(
        narrow(n), copy.data(), at(L, i * n), attrs.compute_v ? at(V, i * n * n) : nullptr));
  });
  check_infos("linalg.eig", infos, A.dim() > 2);
}

void ldl_factor_kernel(const KernelContext& context, const LdlFactorAttrs& attrs) {
  const View &A = context.input(0), &LD = context.output(0), &pivots = context.output(1);
  if (A.numel == 0) {
    if (context.output(2).numel > 0)
      std::memset(context.output(2).data, 0, context.output(2).bytes());
    return;
  }
  const Shape batch = batch_sizes(A);
  const int64_t n = A.sizes[A.dim() - 1];
  const auto bytes = static_cast<int64_t>(element_size(A.dtype));
  const BatchOffsets offsets(A, batch);
  const Lapack lapack(A.dtype, "linalg.ldl_factor");
  for_each_matrix(batch.numel(), n * n * n, [&](int64_t i) {
    char* const matrix = at(LD, i * n * n);
    copy_columns(A, offsets, i, matrix);
    for (int64_t j = 1; j < n; ++j)  // what is above the diagonal is not read
      std::memset(matrix + j * n * bytes, 0, static_cast<size_t>(j * bytes));
    context.output(2).as<int32_t>()[i] =
        lapack.factorise_ldl(attrs.hermitian, narrow(n), matrix, pivots.as<int32_t>() + i * n);
  });
  const std::span<const int32_t> infos(context.output(2).as<int32_t>(),
                                       static_cast<size_t>(batch.numel()));
  if (attrs.check_errors) check_infos("linalg.ldl_factor", infos, A.dim() > 2);
}

void ldl_solve_kernel(const KernelContext& context, const LdlAttrs& attrs) {
  const View &LD = context.input(0), &pivots = context.input(1), &B = context.input(2),
             &X = context.output();
  if (X.numel == 0) return;
  const Shape batch = batch_sizes(X);
  const int64_t n = LD.sizes[LD.dim() - 1], columns = B.sizes[B.dim() - 1];
  const BatchOffsets factors(LD, batch), places(pivots, batch, 1), sides(B, batch);
  const int64_t step = pivots.strides[pivots.dim() - 1];
  const Lapack lapack(LD.dtype, "linalg.ldl_solve");
  for_each_matrix(batch.numel(), n * n * columns, [&](int64_t i) {
    std::vector<char> copy(static_cast<size_t>(n * n) * element_size(LD.dtype));
    copy_columns(LD, factors, i, copy.data());
    std::vector<int32_t> rows(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; ++k) {
      const int32_t row = pivots.as<int32_t>()[places[i] + k * step];
      check(row != 0 && std::abs(int64_t{row}) <= n,
            "linalg.ldl_solve: pivots must be row numbers ", "from 1 to ", n,
            " or their negatives, got ", row);
      rows[static_cast<size_t>(k)] = row;
    }
    char* const result = at(X, i * n * columns);
    copy_columns(B, sides, i, result);
    const int info = lapack.solve_ldl(attrs.hermitian, narrow(n), narrow(columns), copy.data(),
                                      rows.data(), result);
    ensure(info == 0, "linalg.ldl_solve: sytrs returned ", info);
  });
}

}  // namespace

void register_eig_cpu() {
  eig_op.set_kernel(DeviceType::cpu, eig_kernel);
  ldl_factor_op.set_kernel(DeviceType::cpu, ldl_factor_kernel);
  ldl_solve_op.set_kernel(DeviceType::cpu, ldl_solve_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

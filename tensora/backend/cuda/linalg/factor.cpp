#include "tensora/backend/cuda/linalg/factor.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "tensora/backend/cuda/linalg/solver_library.h"
#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {
namespace {

cudaDataType type_of(DType dtype) {
  const bool wide = real_dtype(dtype) == DType::float64;
  if (is_complex(dtype)) return wide ? CUDA_C_64F : CUDA_C_32F;
  return wide ? CUDA_R_64F : CUDA_R_32F;
}

/// Calls `body` with float or double.
template <class Body>
void visit(DType dtype, Body&& body) {
  if (dtype == DType::float64)
    body.template operator()<double>();
  else
    body.template operator()<float>();
}

/// The function for float or for double.
template <class T, class Single, class Double>
auto pick(Single* single, Double* wide) {
  if constexpr (std::is_same_v<T, double>)
    return wide;
  else
    return single;
}

int narrow(const Matrices& sizes, int64_t value) {
  check(value <= std::numeric_limits<int>::max(), sizes.context.op, ": ", value,
        " is more than the CUDA libraries take at once");
  return static_cast<int>(value);
}

/// The workspaces of one call, on the device and on the host.
class Workspace {
 public:
  Workspace(const Matrices& sizes, size_t device_bytes, size_t host_bytes)
      : device_(sizes.context.device.index, device_bytes), host_(host_bytes) {}
  void* device() const { return device_.data(); }
  void* host() { return host_.data(); }
  size_t host_bytes() const { return host_.size(); }

 private:
  Scratch device_;
  std::vector<char> host_;
};

/// Makes the device current for the libraries, and reports the launch.
class Call {
 public:
  explicit Call(const Matrices& sizes)
      : guard_(sizes.context.device.index), handles(sizes.context.device.index), sizes_(sizes) {
    note_launch(sizes.context.op);
  }
  void done() const { after_launch(sizes_.context.op, sizes_.context.device.index); }

 private:
  DeviceGuard guard_;

 public:
  SolverHandles handles;

 private:
  const Matrices& sizes_;
};

// Small matrices of a batch are factorised by one kernel; large ones fill the device one by one.
constexpr int64_t kBatchedSize = 512;
bool is_batched(const Matrices& sizes) { return sizes.count > 1 && sizes.n <= kBatchedSize; }

/// Where cuSOLVER's pivots lie, which have 64 bits.
View wide_pivots(const View& pivots, const Scratch& memory) {
  View result = pivots;
  result.dtype = DType::int64;
  result.data = memory.data();
  result.strides = contiguous_strides(result.sizes);
  result.update();
  return result;
}

}  // namespace

void factorise_cholesky(const Matrices& sizes, const ColumnBatch& A, bool upper, int32_t* infos) {
  const Call call(sizes);
  const cublasFillMode_t fill = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  const std::string_view op = sizes.context.op;
  if (is_batched(sizes)) {
    const PointerArray pointers(sizes.context, A, sizes.count);
    visit(sizes.dtype, [&]<class T>() {
      const auto potrf = pick<T>(cusolver().spotrf_batched, cusolver().dpotrf_batched);
      check_solver(potrf(call.handles->solver, fill, narrow(sizes, sizes.n), pointers.as<T>(),
                         narrow(sizes, A.ld), infos, narrow(sizes, sizes.count)),
                   op, "cusolverDn potrfBatched");
    });
    return call.done();
  }
  const cudaDataType type = type_of(sizes.dtype);
  size_t device_bytes = 0, host_bytes = 0;
  check_solver(cusolver().potrf_size(call.handles->solver, call.handles->params, fill, sizes.n,
                                     type, A.data, A.ld, type, &device_bytes, &host_bytes),
               op, "cusolverDnXpotrf_bufferSize");
  Workspace work(sizes, device_bytes, host_bytes);
  for (int64_t i = 0; i < sizes.count; ++i)
    check_solver(cusolver().potrf(call.handles->solver, call.handles->params, fill, sizes.n, type,
                                  A.at<void>(i), A.ld, type, work.device(), device_bytes,
                                  work.host(), work.host_bytes(), infos + i),
                 op, "cusolverDnXpotrf");
  call.done();
}

void factorise_lu(const Matrices& sizes, const ColumnBatch& A, bool pivot, const View& pivots,
                  int32_t* infos) {
  const Call call(sizes);
  const std::string_view op = sizes.context.op;
  if (is_batched(sizes) && sizes.m == sizes.n) {
    const PointerArray pointers(sizes.context, A, sizes.count);
    visit(sizes.dtype, [&]<class T>() {
      const auto getrf = pick<T>(cublas().sgetrf_batched, cublas().dgetrf_batched);
      check_blas(
          getrf(call.handles->blas, narrow(sizes, sizes.n), pointers.as<T>(), narrow(sizes, A.ld),
                pivot ? pivots.as<int>() : nullptr, infos, narrow(sizes, sizes.count)),
          op, "cublas getrfBatched");
    });
    return call.done();
  }
  const cudaDataType type = type_of(sizes.dtype);
  const int64_t k = std::min(sizes.m, sizes.n);
  size_t device_bytes = 0, host_bytes = 0;
  check_solver(cusolver().getrf_size(call.handles->solver, call.handles->params, sizes.m, sizes.n,
                                     type, A.data, A.ld, type, &device_bytes, &host_bytes),
               op, "cusolverDnXgetrf_bufferSize");
  Workspace work(sizes, device_bytes, host_bytes);
  const Scratch wide_memory(sizes.context.device.index,
                            static_cast<size_t>(pivots.numel) * sizeof(int64_t));
  const View wide = wide_pivots(pivots, wide_memory);
  for (int64_t i = 0; i < sizes.count; ++i)
    check_solver(
        cusolver().getrf(call.handles->solver, call.handles->params, sizes.m, sizes.n, type,
                         A.at<void>(i), A.ld, pivot ? wide.as<int64_t>() + i * k : nullptr, type,
                         work.device(), device_bytes, work.host(), work.host_bytes(), infos + i),
        op, "cusolverDnXgetrf");
  if (pivot) copy_elements(op, wide, pivots);
  call.done();
}

void solve_lu(const Matrices& x_sizes, const ColumnBatch& LU, const View& pivots,
              const ColumnBatch& X, bool adjoint) {
  const Call call(x_sizes);
  const std::string_view op = x_sizes.context.op;
  const int64_t n = x_sizes.m, columns = x_sizes.n;
  const cublasOperation_t operation = adjoint ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (x_sizes.count > 1 && n <= kBatchedSize) {
    const PointerArray factors(x_sizes.context, LU, x_sizes.count);
    const PointerArray solutions(x_sizes.context, X, x_sizes.count);
    visit(x_sizes.dtype, [&]<class T>() {
      const auto getrs = pick<T>(cublas().sgetrs_batched, cublas().dgetrs_batched);
      int wrong = 0;  // on the host: the number of an argument
      check_blas(getrs(call.handles->blas, operation, narrow(x_sizes, n), narrow(x_sizes, columns),
                       factors.as<T>(), narrow(x_sizes, LU.ld), pivots.as<int>(), solutions.as<T>(),
                       narrow(x_sizes, X.ld), &wrong, narrow(x_sizes, x_sizes.count)),
                 op, "cublas getrsBatched");
    });
    return call.done();
  }
  const cudaDataType type = type_of(x_sizes.dtype);
  const Scratch wide_memory(x_sizes.context.device.index,
                            static_cast<size_t>(pivots.numel) * sizeof(int64_t));
  const View wide = wide_pivots(pivots, wide_memory);
  copy_elements(op, pivots, wide);
  const Scratch info(x_sizes.context.device.index, sizeof(int));
  for (int64_t i = 0; i < x_sizes.count; ++i)
    check_solver(cusolver().getrs(call.handles->solver, call.handles->params, operation, n, columns,
                                  type, LU.at<void>(i), LU.ld, wide.as<int64_t>() + i * n, type,
                                  X.at<void>(i), X.ld, reinterpret_cast<int*>(info.data())),
                 op, "cusolverDnXgetrs");
  call.done();
}

void solve_triangular(const Matrices& x_sizes, const ColumnBatch& A, const ColumnBatch& X,
                      const TriangularSides& sides) {
  const Call call(x_sizes);
  const std::string_view op = x_sizes.context.op;
  const cublasSideMode_t side = sides.left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
  // What is stored by rows is the transpose, stored by columns.
  const cublasFillMode_t fill =
      sides.upper != A.turned ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  const cublasOperation_t operation = A.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasDiagType_t diagonal = sides.unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
  const int64_t size = sides.left ? x_sizes.m : x_sizes.n;
  visit(x_sizes.dtype, [&]<class T>() {
    const T one = 1;
    if (x_sizes.count > 1 && size <= kBatchedSize) {
      const PointerArray triangles(x_sizes.context, A, x_sizes.count);
      const PointerArray solutions(x_sizes.context, X, x_sizes.count);
      const auto trsm = pick<T>(cublas().strsm_batched, cublas().dtrsm_batched);
      check_blas(trsm(call.handles->blas, side, fill, operation, diagonal, x_sizes.m, x_sizes.n,
                      &one, triangles.as<T>(), A.ld, solutions.as<T>(), X.ld, x_sizes.count),
                 op, "cublas trsmBatched");
      return;
    }
    const auto trsm = pick<T>(cublas().strsm, cublas().dtrsm);
    for (int64_t i = 0; i < x_sizes.count; ++i)
      check_blas(trsm(call.handles->blas, side, fill, operation, diagonal, x_sizes.m, x_sizes.n,
                      &one, A.at<T>(i), A.ld, X.at<T>(i), X.ld),
                 op, "cublas trsm");
  });
  call.done();
}

void factorise_qr(const Matrices& sizes, const ColumnBatch& A, void* tau) {
  const Call call(sizes);
  const cudaDataType type = type_of(sizes.dtype);
  const int64_t k = std::min(sizes.m, sizes.n);
  const auto tau_bytes = k * static_cast<int64_t>(element_size(sizes.dtype));
  size_t device_bytes = 0, host_bytes = 0;
  check_solver(
      cusolver().geqrf_size(call.handles->solver, call.handles->params, sizes.m, sizes.n, type,
                            A.data, A.ld, type, tau, type, &device_bytes, &host_bytes),
      sizes.context.op, "cusolverDnXgeqrf_bufferSize");
  Workspace work(sizes, device_bytes, host_bytes);
  const Scratch info(sizes.context.device.index, sizeof(int));
  for (int64_t i = 0; i < sizes.count; ++i)
    check_solver(
        cusolver().geqrf(call.handles->solver, call.handles->params, sizes.m, sizes.n, type,
                         A.at<void>(i), A.ld, type, static_cast<char*>(tau) + i * tau_bytes, type,
                         work.device(), device_bytes, work.host(), work.host_bytes(),
                         reinterpret_cast<int*>(info.data())),
        sizes.context.op, "cusolverDnXgeqrf");
  call.done();
}

namespace {

/// form_q by the library's functions for elements of type T.
template <class T, class Size, class Form>
void form_q_by(Size* size, Form* form, const Matrices& sizes, const ColumnBatch& Q,
               int64_t reflectors, const T* tau) {
  const Call call(sizes);
  const std::string_view op = sizes.context.op;
  const int m = narrow(sizes, sizes.m), n = narrow(sizes, sizes.n);
  const int k = narrow(sizes, reflectors), ld = narrow(sizes, Q.ld);
  int elements = 0;
  check_solver(size(call.handles->solver, m, n, k, Q.at<T>(0), ld, tau, &elements), op,
               "cusolverDn orgqr_bufferSize");
  const Scratch work(sizes.context.device.index, static_cast<size_t>(elements) * sizeof(T));
  const Scratch info(sizes.context.device.index, sizeof(int));
  for (int64_t i = 0; i < sizes.count; ++i)
    check_solver(
        form(call.handles->solver, m, n, k, Q.at<T>(i), ld, tau + i * reflectors,
             reinterpret_cast<T*>(work.data()), elements, reinterpret_cast<int*>(info.data())),
        op, "cusolverDn orgqr");
  call.done();
}

}  // namespace

void form_q(const Matrices& q_sizes, const ColumnBatch& Q, int64_t reflectors, const void* tau) {
  const Cusolver& library = cusolver();
  const auto by = [&]<class T>(auto* size, auto* form) {
    form_q_by(size, form, q_sizes, Q, reflectors, static_cast<const T*>(tau));
  };
  if (q_sizes.dtype == DType::complex64)
    by.operator()<cuComplex>(library.cungqr_size, library.cungqr);
  else if (q_sizes.dtype == DType::complex128)
    by.operator()<cuDoubleComplex>(library.zungqr_size, library.zungqr);
  else if (q_sizes.dtype == DType::float64)
    by.operator()<double>(library.dorgqr_size, library.dorgqr);
  else
    by.operator()<float>(library.sorgqr_size, library.sorgqr);
}

void decompose_svd(const Matrices& sizes, const ColumnBatch& A, void* S, const ColumnBatch& U,
                   const ColumnBatch& Vh, bool full, int32_t* infos) {
  const Call call(sizes);
  const cudaDataType type = type_of(sizes.dtype);
  const DType real = real_dtype(sizes.dtype);
  const auto step = std::min(sizes.m, sizes.n) * static_cast<int64_t>(element_size(real));
  const signed char job = !U.data ? 'N' : full ? 'A' : 'S';
  size_t device_bytes = 0, host_bytes = 0;
  check_solver(cusolver().gesvd_size(call.handles->solver, call.handles->params, job, job, sizes.m,
                                     sizes.n, type, A.data, A.ld, type_of(real), S, type, U.data,
                                     U.ld, type, Vh.data, Vh.ld, type, &device_bytes, &host_bytes),
               sizes.context.op, "cusolverDnXgesvd_bufferSize");
  Workspace work(sizes, device_bytes, host_bytes);
  for (int64_t i = 0; i < sizes.count; ++i)
    check_solver(
        cusolver().gesvd(call.handles->solver, call.handles->params, job, job, sizes.m, sizes.n,
                         type, A.at<void>(i), A.ld, type_of(real), static_cast<char*>(S) + i * step,
                         type, U.data ? U.at<void>(i) : nullptr, U.ld, type,
                         Vh.data ? Vh.at<void>(i) : nullptr, Vh.ld, type, work.device(),
                         device_bytes, work.host(), work.host_bytes(), infos + i),
        sizes.context.op, "cusolverDnXgesvd");
  call.done();
}

void decompose_symmetric(const Matrices& sizes, const ColumnBatch& A, void* values, bool vectors,
                         bool upper, int32_t* infos) {
  const Call call(sizes);
  const cudaDataType type = type_of(sizes.dtype);
  const cublasFillMode_t fill = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const DType real = real_dtype(sizes.dtype);
  const auto step = sizes.n * static_cast<int64_t>(element_size(real));
  size_t device_bytes = 0, host_bytes = 0;
  check_solver(
      cusolver().syevd_size(call.handles->solver, call.handles->params, mode, fill, sizes.n, type,
                            A.data, A.ld, type_of(real), values, type, &device_bytes, &host_bytes),
      sizes.context.op, "cusolverDnXsyevd_bufferSize");
  Workspace work(sizes, device_bytes, host_bytes);
  for (int64_t i = 0; i < sizes.count; ++i)
    check_solver(cusolver().syevd(call.handles->solver, call.handles->params, mode, fill, sizes.n,
                                  type, A.at<void>(i), A.ld, type_of(real),
                                  static_cast<char*>(values) + i * step, type, work.device(),
                                  device_bytes, work.host(), work.host_bytes(), infos + i),
                 sizes.context.op, "cusolverDnXsyevd");
  call.done();
}

}  // namespace tensora::cuda

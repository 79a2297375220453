#include "tensora/backend/cuda/linalg/solver_library.h"

#include <map>
#include <mutex>
#include <vector>

#include "tensora/backend/cuda/runtime/dynamic_library.h"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {

Cublas::Cublas() {
  const DynamicLibrary library({"libcublas.so.13", "libcublas.so"}, "linear algebra");
  library.load(create, "cublasCreate_v2");
  library.load(set_stream, "cublasSetStream_v2");
  library.load(strsm, "cublasStrsm_v2_64");
  library.load(dtrsm, "cublasDtrsm_v2_64");
  library.load(strsm_batched, "cublasStrsmBatched_64");
  library.load(dtrsm_batched, "cublasDtrsmBatched_64");
  library.load(sgetrf_batched, "cublasSgetrfBatched");
  library.load(dgetrf_batched, "cublasDgetrfBatched");
  library.load(sgetrs_batched, "cublasSgetrsBatched");
  library.load(dgetrs_batched, "cublasDgetrsBatched");
}

Cusolver::Cusolver() {
  const DynamicLibrary library({"libcusolver.so.12", "libcusolver.so"}, "linear algebra");
  library.load(create, "cusolverDnCreate");
  library.load(set_stream, "cusolverDnSetStream");
  library.load(create_params, "cusolverDnCreateParams");
  library.load(potrf_size, "cusolverDnXpotrf_bufferSize");
  library.load(potrf, "cusolverDnXpotrf");
  library.load(spotrf_batched, "cusolverDnSpotrfBatched");
  library.load(dpotrf_batched, "cusolverDnDpotrfBatched");
  library.load(getrf_size, "cusolverDnXgetrf_bufferSize");
  library.load(getrf, "cusolverDnXgetrf");
  library.load(getrs, "cusolverDnXgetrs");
  library.load(geqrf_size, "cusolverDnXgeqrf_bufferSize");
  library.load(geqrf, "cusolverDnXgeqrf");
  library.load(sorgqr_size, "cusolverDnSorgqr_bufferSize");
  library.load(dorgqr_size, "cusolverDnDorgqr_bufferSize");
  library.load(cungqr_size, "cusolverDnCungqr_bufferSize");
  library.load(zungqr_size, "cusolverDnZungqr_bufferSize");
  library.load(sorgqr, "cusolverDnSorgqr");
  library.load(dorgqr, "cusolverDnDorgqr");
  library.load(cungqr, "cusolverDnCungqr");
  library.load(zungqr, "cusolverDnZungqr");
  library.load(gesvd_size, "cusolverDnXgesvd_bufferSize");
  library.load(gesvd, "cusolverDnXgesvd");
  library.load(syevd_size, "cusolverDnXsyevd_bufferSize");
  library.load(syevd, "cusolverDnXsyevd");
}

const Cublas& cublas() {
  static const Cublas functions;
  return functions;
}

const Cusolver& cusolver() {
  static const Cusolver functions;
  return functions;
}

namespace {

struct Pool {
  std::mutex mutex;
  std::map<std::pair<int, cudaStream_t>, std::vector<SolverHandles::Set>> free;
};

Pool& pool() {
  static auto* const pool = new Pool;  // handles outlive static objects: the driver frees them
  return *pool;
}

}  // namespace

SolverHandles::SolverHandles(int device) : device_(device), stream_(current_stream(device)) {
  {
    const std::lock_guard lock(pool().mutex);
    auto& free = pool().free[{device, stream_}];
    if (!free.empty()) {
      set_ = free.back();
      free.pop_back();
      return;
    }
  }
  const DeviceGuard guard(device);
  check_blas(cublas().create(&set_.blas), "cuda", "cublasCreate");
  check_solver(cusolver().create(&set_.solver), "cuda", "cusolverDnCreate");
  check_solver(cusolver().create_params(&set_.params), "cuda", "cusolverDnCreateParams");
  check_blas(cublas().set_stream(set_.blas, stream_), "cuda", "cublasSetStream");
  check_solver(cusolver().set_stream(set_.solver, stream_), "cuda", "cusolverDnSetStream");
}

SolverHandles::~SolverHandles() {
  const std::lock_guard lock(pool().mutex);
  pool().free[{device_, stream_}].push_back(set_);
}

void check_blas(cublasStatus_t status, std::string_view op, std::string_view call) {
  check(status == CUBLAS_STATUS_SUCCESS, op, ": ", call, " failed with status ",
        static_cast<int>(status), "; the last ops were ", recent_launches());
}

void check_solver(cusolverStatus_t status, std::string_view op, std::string_view call) {
  check(status == CUSOLVER_STATUS_SUCCESS, op, ": ", call, " failed with status ",
        static_cast<int>(status), "; the last ops were ", recent_launches());
}

}  // namespace tensora::cuda

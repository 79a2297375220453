#pragma once

// cuSOLVER and cuBLAS, opened when the first factorisation asks for them.

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <string_view>

namespace tensora::cuda {

struct Cublas {
  decltype(cublasCreate_v2)* create;
  decltype(cublasSetStream_v2)* set_stream;
  decltype(cublasStrsm_v2_64)* strsm;
  decltype(cublasDtrsm_v2_64)* dtrsm;
  decltype(cublasStrsmBatched_64)* strsm_batched;
  decltype(cublasDtrsmBatched_64)* dtrsm_batched;
  decltype(cublasSgetrfBatched)* sgetrf_batched;
  decltype(cublasDgetrfBatched)* dgetrf_batched;
  decltype(cublasSgetrsBatched)* sgetrs_batched;
  decltype(cublasDgetrsBatched)* dgetrs_batched;

  Cublas();
};

struct Cusolver {
  decltype(cusolverDnCreate)* create;
  decltype(cusolverDnSetStream)* set_stream;
  decltype(cusolverDnCreateParams)* create_params;
  decltype(cusolverDnXpotrf_bufferSize)* potrf_size;
  decltype(cusolverDnXpotrf)* potrf;
  decltype(cusolverDnSpotrfBatched)* spotrf_batched;
  decltype(cusolverDnDpotrfBatched)* dpotrf_batched;
  decltype(cusolverDnXgetrf_bufferSize)* getrf_size;
  decltype(cusolverDnXgetrf)* getrf;
  decltype(cusolverDnXgetrs)* getrs;
  decltype(cusolverDnXgeqrf_bufferSize)* geqrf_size;
  decltype(cusolverDnXgeqrf)* geqrf;
  decltype(cusolverDnSorgqr_bufferSize)* sorgqr_size;
  decltype(cusolverDnDorgqr_bufferSize)* dorgqr_size;
  decltype(cusolverDnCungqr_bufferSize)* cungqr_size;
  decltype(cusolverDnZungqr_bufferSize)* zungqr_size;
  decltype(cusolverDnSorgqr)* sorgqr;
  decltype(cusolverDnDorgqr)* dorgqr;
  decltype(cusolverDnCungqr)* cungqr;
  decltype(cusolverDnZungqr)* zungqr;
  decltype(cusolverDnXgesvd_bufferSize)* gesvd_size;
  decltype(cusolverDnXgesvd)* gesvd;
  decltype(cusolverDnXsyevd_bufferSize)* syevd_size;
  decltype(cusolverDnXsyevd)* syevd;

  Cusolver();
};

/// Throw an Error that says what is missing if the library cannot be opened.
const Cublas& cublas();
const Cusolver& cusolver();

/// Handles of both libraries that belong to one caller while this lives. They are kept per device
/// and stream: a library's workspace may still be in use by what was queued before.
class SolverHandles {
 public:
  explicit SolverHandles(int device);
  ~SolverHandles();
  SolverHandles(const SolverHandles&) = delete;
  SolverHandles& operator=(const SolverHandles&) = delete;

  struct Set {
    cublasHandle_t blas = nullptr;
    cusolverDnHandle_t solver = nullptr;
    cusolverDnParams_t params = nullptr;
  };
  const Set* operator->() const { return &set_; }

 private:
  int device_;
  cudaStream_t stream_;
  Set set_;
};

/// Throw an Error that names the op and the call unless it succeeded.
void check_blas(cublasStatus_t status, std::string_view op, std::string_view call);
void check_solver(cusolverStatus_t status, std::string_view op, std::string_view call);

}  // namespace tensora::cuda

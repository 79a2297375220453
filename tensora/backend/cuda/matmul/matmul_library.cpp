#include "tensora/backend/cuda/matmul/matmul_library.h"

#include <map>
#include <mutex>

#include "tensora/backend/cuda/runtime/dynamic_library.h"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {

CublasLt::CublasLt() {
  const DynamicLibrary library({"libcublasLt.so.13", "libcublasLt.so"}, "matrix multiplication");
  library.load(create, "cublasLtCreate");
  library.load(desc_init, "cublasLtMatmulDescInit_internal");
  library.load(desc_set, "cublasLtMatmulDescSetAttribute");
  library.load(layout_init, "cublasLtMatrixLayoutInit_internal");
  library.load(layout_set, "cublasLtMatrixLayoutSetAttribute");
  library.load(preference_init, "cublasLtMatmulPreferenceInit_internal");
  library.load(preference_set, "cublasLtMatmulPreferenceSetAttribute");
  library.load(get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.load(matmul, "cublasLtMatmul");
}

const CublasLt& cublas_lt() {
  static const CublasLt functions;
  return functions;
}

cublasLtHandle_t cublas_lt_handle(int device) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  std::lock_guard lock(mutex);
  cublasLtHandle_t& found = handles[device];
  if (!found) {
    const DeviceGuard guard(device);
    check(cublas_lt().create(&found) == CUBLAS_STATUS_SUCCESS, "cuda: cublasLtCreate failed");
  }
  return found;
}

}  // namespace tensora::cuda

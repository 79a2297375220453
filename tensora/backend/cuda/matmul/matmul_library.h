#pragma once

// cuBLASLt, opened when the first product asks for it.

#include <cublasLt.h>

namespace tensora::cuda {

struct CublasLt {
  decltype(cublasLtCreate)* create;
  decltype(cublasLtMatmulDescInit_internal)* desc_init;
  decltype(cublasLtMatmulDescSetAttribute)* desc_set;
  decltype(cublasLtMatrixLayoutInit_internal)* layout_init;
  decltype(cublasLtMatrixLayoutSetAttribute)* layout_set;
  decltype(cublasLtMatmulPreferenceInit_internal)* preference_init;
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set;
  decltype(cublasLtMatmulAlgoGetHeuristic)* get_heuristic;
  decltype(cublasLtMatmul)* matmul;

  CublasLt();
};

/// Throws an Error that says what is missing if the library cannot be opened.
const CublasLt& cublas_lt();
/// One per device, created at the first call.
cublasLtHandle_t cublas_lt_handle(int device);

}  // namespace tensora::cuda

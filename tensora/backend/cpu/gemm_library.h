#pragma once

// Matrix products of installed libraries, for the shapes where they win.

#include <cstdint>
#include <string>

#include "tensora/backend/cpu/gemm_product.h"

namespace tensora::cpu {

enum class GemmLibraries { automatic, off, openblas, onednn };

/// Which libraries large products may use: what TENSORA_BLAS says (auto, off, openblas or onednn)
/// until this is called. Throws if the one that is asked for cannot be used.
void set_gemm_libraries(GemmLibraries allowed);
GemmLibraries allowed_gemm_libraries();

/// The libraries in use, for reports: "OpenBLAS 0.3.21, oneDNN 2.6.3" or "none".
std::string gemm_libraries();
/// Why those that are missing there are not used, a sentence each; empty if none is.
std::string refused_gemm_libraries();

/// Computes the product if a library is better at it than our own kernels. Internal.
bool multiply_by_library(const Product<float>& p);
bool multiply_by_library(const Product<double>& p);

}  // namespace tensora::cpu

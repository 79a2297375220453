#pragma once

#include <cuda_runtime_api.h>

namespace tensora::test {

/// out (64 8, float) = a (64 16, bfloat16) @ b^T (b: 8 16), by one wgmma instruction.
cudaError_t wgmma_tile(const void* a, const void* b, float* out, cudaStream_t stream);

}  // namespace tensora::test

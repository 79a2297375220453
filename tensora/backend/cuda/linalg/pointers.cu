#include "tensora/backend/cuda/linalg/pointers.h"

#include <algorithm>

#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {
namespace {

__global__ void write_pointers(char** pointers, char* base, int64_t step, int64_t count) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x)
    pointers[i] = base + i * step;
}

}  // namespace

void fill_pointers(std::string_view op, int device, void* pointers, char* base, int64_t step,
                   int64_t count) {
  constexpr int kThreads = 256;
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>((count + kThreads - 1) / kThreads, 1024));
  Launch{op, device}(write_pointers, dim3(blocks), dim3(kThreads), static_cast<char**>(pointers),
                     base, step, count);
}

}  // namespace tensora::cuda

// PyTorch's caching allocator on the patterns of bench/allocator_patterns.h, called from C++ as its
// own tensors call it. Built and run by bench/cuda_allocator.py where PyTorch is installed; never
// part of the product.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include "bench/allocator_patterns.h"

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

struct Theirs {
  Theirs() { caching::init(c10::cuda::device_count()); }

  void* allocate(size_t bytes) { return caching::raw_alloc(bytes); }
  void free(void* address, size_t) { caching::raw_delete(address); }
  size_t reserved() const {
    return static_cast<size_t>(caching::getDeviceStats(0).reserved_bytes[0].current);
  }
  void limit(size_t bytes) {
    size_t available = 0, total = 0;
    cudaMemGetInfo(&available, &total);
    const double share = static_cast<double>(bytes) / static_cast<double>(total);
    caching::setMemoryFraction(bytes == 0 ? 1.0 : share, 0);
  }
  void empty() { caching::emptyCache(); }
};

}  // namespace

int main() {
  cudaFree(nullptr);
  bench::Patterns<Theirs>().run();
  return 0;
}

#include "tensora/backend/cpu/address_space.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <vector>

namespace tensora::cpu {
namespace {

constexpr size_t kBuffer = size_t{129} << 20, kStack = size_t{9} << 20;
constexpr size_t kLibrary = size_t{96} << 20;

bool is_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

bool has_address_space(size_t bytes) {
  if (!is_limited()) return true;
  void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return false;
  munmap(place, bytes);
  return true;
}

size_t openblas_address_space(int threads) {
  return kLibrary + static_cast<size_t>(threads) * (kBuffer + kStack);
}

bool map_openblas_buffers(void* library, int threads) {
  if (!is_limited()) return true;
  const auto take = reinterpret_cast<void* (*)(int)>(dlsym(library, "blas_memory_alloc"));
  const auto give_back = reinterpret_cast<void (*)(void*)>(dlsym(library, "blas_memory_free"));
  if (!take || !give_back) return true;
  std::vector<void*> buffers;
  while (static_cast<int>(buffers.size()) < threads && has_address_space(kBuffer))
    buffers.push_back(take(0));
  for (void* buffer : buffers) give_back(buffer);  // the library keeps them mapped
  return static_cast<int>(buffers.size()) == threads;
}

}  // namespace tensora::cpu

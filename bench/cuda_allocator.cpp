// Our caching allocator on the patterns of bench/allocator_patterns.h.
#include "bench/allocator_patterns.h"
#include "tensora/core/backend.h"

namespace {

struct Ours {
  tensora::Allocator& memory = tensora::allocator(tensora::DeviceType::cuda);

  void* allocate(size_t bytes) { return memory.allocate(bytes); }
  void free(void* address, size_t bytes) { memory.free(address, bytes); }
  size_t reserved() const { return memory.stats().reserved; }
  void limit(size_t bytes) { memory.set_limit(bytes); }
  void empty() { memory.empty_cache(); }
};

}  // namespace

int main() {
  const std::string reason = tensora::unavailable_reason(tensora::DeviceType::cuda);
  if (!reason.empty()) {
    std::printf("%s\n", reason.c_str());
    return 77;
  }
  try {
    bench::Patterns<Ours>().run();
  } catch (const std::exception& error) {
    std::printf("bench: %s\n", error.what());
    return 1;
  }
  return 0;
}

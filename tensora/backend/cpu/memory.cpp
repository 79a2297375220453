#include "tensora/backend/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/base/object_pool.h"

// Note [Pages are the cost]
// A large fresh array from the system is a promise: the kernel hands over its pages one by one at
// the first touch, zeroed, and takes all of them back at the free. On big pointwise ops that costs
// four to seven times the arithmetic. So blocks are rounded up to size classes (eight per power
// of two, at most 12.5 % waste) and a freed block goes to the list of its class. Blocks of 2 MiB
// and more are aligned for huge pages and ask for them.

namespace tensora::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmall = 1024;  // up to here the per-thread object pool serves
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kStepsPerDoubling = 8;
constexpr int kClasses = 44 * kStepsPerDoubling;

struct SizeClass {
  int index;
  size_t bytes;
};

SizeClass size_class(size_t bytes) {
  // Between 2^e and 2^(e+1) there are eight classes, each 2^(e-3) apart.
  const int exponent = std::max(10, static_cast<int>(std::bit_width(bytes - 1)) - 1);
  const size_t step = size_t{1} << (exponent - 3);
  const size_t steps = (bytes - (size_t{1} << exponent) + step - 1) / step;  // 1..8
  const int index = (exponent - 10) * kStepsPerDoubling + static_cast<int>(steps);
  return {index, (size_t{1} << exponent) + steps * step};
}

class HostAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    if (bytes <= kSmall) {
      // The pool's blocks have the heap's alignment of 16; vector loads here are unaligned loads.
      return pool_allocate(bytes);
    }
    check_plausible(bytes);
    const SizeClass wanted = size_class(bytes);
    std::unique_lock lock(mutex_);
    ++stats_.allocations;
    std::vector<void*>& list = free_[static_cast<size_t>(wanted.index)];
    if (!list.empty()) {
      void* block = list.back();
      list.pop_back();
      ++stats_.cache_hits;
      note_allocated(wanted.bytes);
      return block;
    }
    if (over_limit(wanted.bytes)) release_cached();
    if (over_limit(wanted.bytes)) throw_out_of_memory(bytes, "the configured limit");
    void* block = from_system(wanted.bytes);
    if (!block) {
      release_cached();
      block = from_system(wanted.bytes);
    }
    if (!block) throw_out_of_memory(bytes, "the system's memory");
    stats_.reserved += wanted.bytes;
    stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
    note_allocated(wanted.bytes);
    return block;
  }

  void free(void* block, size_t bytes) noexcept override {
    if (!block) return;
    if (bytes <= kSmall) {
      pool_free(block, bytes);
      return;
    }
    const SizeClass kept = size_class(bytes);
    std::lock_guard lock(mutex_);
    stats_.allocated -= kept.bytes;
    try {
      free_[static_cast<size_t>(kept.index)].push_back(block);
    } catch (...) {
      to_system(block, kept.bytes);
    }
  }

  MemoryStats stats() const override {
    std::lock_guard lock(mutex_);
    MemoryStats result = stats_;
    for (int i = 0; i < kClasses; ++i)
      if (!free_[static_cast<size_t>(i)].empty()) result.largest_free = class_bytes(i);
    return result;
  }

  void empty_cache() override {
    std::lock_guard lock(mutex_);
    release_cached();
  }

  void set_limit(uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    stats_.limit = bytes;
    if (bytes != 0 && stats_.reserved > bytes) release_cached();
  }

  void reset_peaks() override {
    std::lock_guard lock(mutex_);
    stats_.peak_allocated = stats_.allocated;
    stats_.peak_reserved = stats_.reserved;
  }

 private:
  static size_t class_bytes(int index) {
    const int exponent = 10 + (index - 1) / kStepsPerDoubling;
    const size_t steps = static_cast<size_t>((index - 1) % kStepsPerDoubling) + 1;
    return (size_t{1} << exponent) + steps * (size_t{1} << (exponent - 3));
  }

  void check_plausible(size_t bytes) {
    if (bytes > (size_t{1} << 46)) {
      std::lock_guard lock(mutex_);
      throw_out_of_memory(bytes, "any machine's address space");
    }
  }

  bool over_limit(size_t bytes) const {
    return stats_.limit != 0 && stats_.reserved + bytes > stats_.limit;
  }

  void note_allocated(size_t bytes) {
    stats_.allocated += bytes;
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  }

  static void* from_system(size_t bytes) {
    const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
    void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (block && bytes >= kHugePage) madvise(block, bytes, MADV_HUGEPAGE);
    return block;
  }
  static void to_system(void* block, size_t) { std::free(block); }

  void release_cached() {
    for (int i = 0; i < kClasses; ++i) {
      for (void* block : free_[static_cast<size_t>(i)]) {
        to_system(block, class_bytes(i));
        stats_.reserved -= class_bytes(i);
      }
      free_[static_cast<size_t>(i)].clear();
    }
  }

  [[noreturn]] void throw_out_of_memory(size_t bytes, std::string_view what) const {
    throw OutOfMemoryError(concat(
        "cpu: out of memory: ", bytes, " bytes do not fit into ", what, " (allocated ",
        stats_.allocated, ", reserved ", stats_.reserved, ", limit ",
        stats_.limit == 0 ? std::string("none") : std::to_string(stats_.limit),
        " bytes). Free tensors you no longer need, use a smaller batch, or raise the limit with "
        "set_memory_limit."));
  }

  mutable std::mutex mutex_;
  std::array<std::vector<void*>, kClasses> free_;
  MemoryStats stats_;
};

class CpuBackend final : public Backend {
 public:
  int device_count() override { return 1; }
  Allocator& allocator(Device) override { return host_allocator(); }
  void copy_bytes(void* to, Device, const void* from, Device, size_t bytes) override {
    __builtin_memcpy(to, from, bytes);
  }
  void synchronize(Device) override {}
};

}  // namespace

Allocator& host_allocator() {
  // Never destroyed: tensors in static storage may be freed after this would be.
  static auto* allocator = new HostAllocator;
  return *allocator;
}

}  // namespace tensora::cpu

namespace tensora {

Backend& cpu_backend() {
  static auto* instance = new cpu::CpuBackend;
  return *instance;
}

}  // namespace tensora

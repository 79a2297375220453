#include "tensora/backend/cpu/memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tensora/backend/cpu/red_zones.h"
#include "tensora/base/check.h"
#include "tensora/base/fork.h"
#include "tensora/base/object_pool.h"
#include "tensora/base/settings.h"

// Note [Pages are the cost]
// The pages of a large new array are allocated by the operating system one by one, at the first
// access, are zeroed, and are all returned when the array is freed. On large pointwise ops that
// costs four to seven times as much as the arithmetic. So blocks are rounded up to size classes
// (eight per power of two, at most 12.5 % waste) and a freed block goes to the list of its class.
// Blocks of 2 MiB and more are aligned for huge pages and request them; they are mapped, not taken
// from the heap, so that releasing one returns it to the system immediately. The cache has a limit:
// beyond it, the least recently freed blocks are returned to the system.

namespace tensora::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmall = 1024;  // up to this size the per-thread object pool is used
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

// Note [Counting small blocks]
// A tensor of a few elements costs some tens of nanoseconds, so its memory must not be counted by
// an atomic operation or under a lock. Each thread counts what it allocates and frees in an object
// of its own, with plain loads and stores, and a reader adds them up. A thread that frees what
// another one allocated may have a negative count: only the total is meaningful. The objects
// outlive their threads, keep their counts, and are reused by new threads.
struct SmallCounts {
  std::atomic<int64_t> bytes = 0;  // written by one thread, read by all
  std::atomic<uint64_t> allocations = 0;

  void add(int64_t more_bytes, uint64_t more_allocations) {
    bytes.store(bytes.load(std::memory_order_relaxed) + more_bytes, std::memory_order_relaxed);
    if (more_allocations != 0)
      allocations.store(allocations.load(std::memory_order_relaxed) + more_allocations,
                        std::memory_order_relaxed);
  }
};

// See Note [Thread-local state without guards].
thread_local constinit SmallCounts* counts_of_thread = nullptr;
thread_local constinit bool thread_is_ending = false;

class AllSmallCounts {
 public:
  AllSmallCounts() { hold_over_fork(mutex_); }
  /// The counts of a thread that has none yet.
  SmallCounts* take() {
    const std::lock_guard lock(mutex_);
    if (unowned_.empty()) return all_.emplace_back(new SmallCounts);
    SmallCounts* counts = unowned_.back();
    unowned_.pop_back();
    return counts;
  }
  void give_back(SmallCounts* counts) {
    const std::lock_guard lock(mutex_);
    unowned_.push_back(counts);
  }
  /// For a thread whose thread-local objects are being destroyed.
  void add_at_thread_end(int64_t bytes, uint64_t allocations) {
    const std::lock_guard lock(mutex_);
    late_.add(bytes, allocations);
  }
  void add_to(MemoryStats& stats) const {
    const std::lock_guard lock(mutex_);
    int64_t bytes = late_.bytes.load(std::memory_order_relaxed);
    stats.allocations += late_.allocations.load(std::memory_order_relaxed);
    for (const SmallCounts* counts : all_) {
      bytes += counts->bytes.load(std::memory_order_relaxed);
      stats.allocations += counts->allocations.load(std::memory_order_relaxed);
    }
    // Threads keep running during the summation, so a block may be counted as freed but not
    // allocated.
    const auto live = static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
    for (uint64_t* field :
         {&stats.allocated, &stats.reserved, &stats.peak_allocated, &stats.peak_reserved})
      *field += live;
  }

 private:
  mutable Mutex mutex_;
  std::vector<SmallCounts*> all_, unowned_;
  SmallCounts late_;
};

AllSmallCounts& all_small_counts() {
  static constinit MadeOnce<AllSmallCounts> instance;
  return instance.get();
}

struct GiveBackAtThreadEnd {
  void arm() {}  // the first use of a thread-local registers its destructor
  ~GiveBackAtThreadEnd() {
    thread_is_ending = true;
    all_small_counts().give_back(std::exchange(counts_of_thread, nullptr));
  }
};
thread_local GiveBackAtThreadEnd give_back_at_thread_end;

[[gnu::noinline]] void count_small_first(int64_t bytes, uint64_t allocations) {
  if (thread_is_ending) return all_small_counts().add_at_thread_end(bytes, allocations);
  counts_of_thread = all_small_counts().take();
  give_back_at_thread_end.arm();
  counts_of_thread->add(bytes, allocations);
}

void count_small(int64_t bytes, uint64_t allocations) {
  if (SmallCounts* counts = counts_of_thread) [[likely]]
    return counts->add(bytes, allocations);
  count_small_first(bytes, allocations);
}

std::string readable(uint64_t bytes) {
  if (bytes < 1024) return concat(bytes, " bytes");
  constexpr std::string_view units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return concat(std::round(value * 10) / 10, " ", units[unit]);
}

/// A line of /proc/meminfo, in bytes; 0 if it is not there.
uint64_t memory_info(std::string_view key) {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size(), nullptr, 10) << 10;
  return 0;
}

/// The memory that is still available.
uint64_t available_memory() { return memory_info("MemAvailable:"); }

/// The machine's memory, or what a container may use of it.
uint64_t usable_memory() {
  uint64_t bytes = memory_info("MemTotal:");
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    uint64_t limit = 0;
    if (std::ifstream(path) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

class HostAllocator final : public Allocator {
 public:
  HostAllocator() {
    const uint64_t usable = usable_memory();
    stats_.cache_limit = bytes_setting("TENSORA_CPU_CACHE_LIMIT", usable, usable / 4);
    all_small_counts();  // its lock is taken while ours is held
    hold_over_fork(mutex_);
  }

  void* allocate(size_t bytes) override {
    if (bytes == 0) return nullptr;
    if (red_zones_wanted.load(std::memory_order_relaxed)) [[unlikely]] {
      check_plausible(bytes);
      return surround(allocate_block(bytes + 2 * kRedZone), bytes);
    }
    return allocate_block(bytes);
  }

  void free(void* block, size_t bytes) noexcept override {
    if (!block) return;
    if (surrounded_blocks.load(std::memory_order_relaxed) != 0 && unsurround(block)) [[unlikely]]
      return free_block(static_cast<char*>(block) - kRedZone, bytes + 2 * kRedZone);
    free_block(block, bytes);
  }

  MemoryStats stats() const override {
    std::unique_lock lock(mutex_);
    MemoryStats result = stats_;
    for (int i = 0; i < kClasses; ++i)
      if (!free_[static_cast<size_t>(i)].empty()) result.largest_free = class_bytes(i);
    lock.unlock();
    all_small_counts().add_to(result);
    return result;
  }

  void empty_cache() override {
    std::lock_guard lock(mutex_);
    release_cached();
#if defined(__GLIBC__)
    malloc_trim(0);  // the heap caches freed memory, too
#endif
  }

  void set_limit(uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    stats_.limit = bytes;
    if (bytes != 0 && stats_.reserved > bytes) release_cached();
  }

  void set_cache_limit(uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    stats_.cache_limit = bytes;
    shrink_cache();
  }

  void reset_peaks() override {
    std::lock_guard lock(mutex_);
    stats_.peak_allocated = stats_.allocated;
    stats_.peak_reserved = stats_.reserved;
  }

 private:
  struct FreeBlock {
    void* address;
    uint64_t freed_at;  // by the count of frees
  };

  void* allocate_block(size_t bytes) {
    if (bytes <= kSmall) {
      // The pool's blocks have the heap's alignment of 16; vector loads here are unaligned loads.
      void* block = pool_allocate(bytes);
      count_small(static_cast<int64_t>(bytes), 1);
      return block;
    }
    return allocate_large(bytes);
  }
  // Large blocks are calls of their own, so that small ones do not save registers for them.
  [[gnu::noinline]] void* allocate_large(size_t bytes) {
    check_plausible(bytes);
    const SizeClass wanted = size_class(bytes);
    std::unique_lock lock(mutex_);
    ++stats_.allocations;
    std::vector<FreeBlock>& list = free_[static_cast<size_t>(wanted.index)];
    if (!list.empty()) {
      void* block = list.back().address;
      list.pop_back();
      ++stats_.cache_hits;
      note_allocated(wanted);
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
    note_allocated(wanted);
    return block;
  }

  void free_block(void* block, size_t bytes) noexcept {
    if (bytes <= kSmall) {
      pool_free(block, bytes);
      count_small(-static_cast<int64_t>(bytes), 0);
      return;
    }
    free_large(block, bytes);
  }
  [[gnu::noinline]] void free_large(void* block, size_t bytes) noexcept {
    const SizeClass kept = size_class(bytes);
    std::lock_guard lock(mutex_);
    stats_.allocated -= kept.bytes;
    --live_[static_cast<size_t>(kept.index)];
    try {
      free_[static_cast<size_t>(kept.index)].push_back({block, ++frees_});
    } catch (...) {
      give_back(block, kept.bytes);
    }
    shrink_cache();
  }

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

  void note_allocated(const SizeClass& block) {
    stats_.allocated += block.bytes;
    ++live_[static_cast<size_t>(block.index)];
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  }

  static void* from_system(size_t bytes) {
    return bytes >= kHugePage ? map_pages(bytes) : std::aligned_alloc(kAlignment, bytes);
  }

#if defined(__SANITIZE_ADDRESS__)
  // The sanitizer detects buffer overflows and use after free only in blocks of the heap.
  static void* map_pages(size_t bytes) {
    return std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage);
  }
  static void unmap_pages(void* block, size_t) { std::free(block); }
#else
  static void* map_pages(size_t bytes) {
    // Over-allocates, so that an aligned part can be chosen.
    const size_t length = bytes + kHugePage;
    void* const mapped =
        mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    char* const begin = static_cast<char*>(mapped);
    const size_t before = -reinterpret_cast<uintptr_t>(begin) % kHugePage;
    char* const block = begin + before;
    if (before != 0) munmap(begin, before);
    munmap(block + bytes, kHugePage - before);
    madvise(block, bytes, MADV_HUGEPAGE);
    return block;
  }
  static void unmap_pages(void* block, size_t bytes) { munmap(block, bytes); }
#endif

  void give_back(void* block, size_t bytes) {
    bytes >= kHugePage ? unmap_pages(block, bytes) : std::free(block);
    stats_.reserved -= bytes;
    stats_.returned += bytes;
  }

  // Each list is in the order of freeing: blocks are added and taken at its end.
  void shrink_cache() {
    while (stats_.reserved - stats_.allocated > stats_.cache_limit) {
      int oldest = 0;
      uint64_t freed_at = UINT64_MAX;
      for (int i = 0; i < kClasses; ++i) {
        const std::vector<FreeBlock>& list = free_[static_cast<size_t>(i)];
        if (list.empty() || list.front().freed_at >= freed_at) continue;
        oldest = i;
        freed_at = list.front().freed_at;
      }
      std::vector<FreeBlock>& list = free_[static_cast<size_t>(oldest)];
      give_back(list.front().address, class_bytes(oldest));
      list.erase(list.begin());
    }
  }

  void release_cached() {
    for (int i = 0; i < kClasses; ++i) {
      std::vector<FreeBlock>& list = free_[static_cast<size_t>(i)];
      for (const FreeBlock& block : list) give_back(block.address, class_bytes(i));
      list.clear();
    }
  }

  // "2 x 1 GiB, 8 MiB": in descending order. A block is up to 12.5 % larger than its tensor.
  std::string largest_live() const {
    constexpr int kListed = 5;
    std::string result;
    int listed = 0;
    for (int i = kClasses - 1; i > 0 && listed < kListed; --i) {
      const uint32_t count = live_[static_cast<size_t>(i)];
      if (count == 0) continue;
      result += concat(listed++ == 0 ? "" : ", ", count > 1 ? concat(count, " x ") : "",
                       readable(class_bytes(i)));
    }
    return result.empty() ? "none" : result;
  }

  // Called with the lock held, after the cache was released.
  [[noreturn]] void throw_out_of_memory(size_t bytes, std::string_view what) const {
    MemoryStats stats = stats_;
    all_small_counts().add_to(stats);
    const uint64_t within_limit = stats_.limit - std::min(stats_.limit, stats_.reserved);
    const bool limited = stats_.limit != 0;
    throw OutOfMemoryError(
        concat("cpu: out of memory: ", readable(bytes), " (", bytes, " bytes) do not fit into ",
               what, " (allocated ", readable(stats.allocated), ", reserved ",
               readable(stats.reserved), ", limit ", limited ? readable(stats.limit) : "none",
               ", largest free block ", readable(limited ? within_limit : available_memory()),
               "). Largest live tensors: ", largest_live(),
               ". Free tensors you no longer need, use a smaller batch or a narrower dtype, run "
               "what needs no gradients under no_grad, or raise the limit with set_memory_limit."));
  }

  mutable Mutex mutex_;
  std::array<std::vector<FreeBlock>, kClasses> free_;
  std::array<uint32_t, kClasses> live_{};  // how many blocks of each class are in use
  uint64_t frees_ = 0;
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
  static constinit MadeOnce<HostAllocator> allocator;
  return allocator.get();
}

}  // namespace tensora::cpu

namespace tensora {

Backend& cpu_backend() {
  static auto* instance = new cpu::CpuBackend;
  return *instance;
}

}  // namespace tensora

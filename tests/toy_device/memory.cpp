#include "tests/toy_device/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "tensora/base/check.h"

namespace tensora::toy {
namespace {

constexpr size_t kAlignment = 64;

size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::byte* map_pages(int protection) {
  void* pages =
      mmap(nullptr, kCapacity, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(pages != MAP_FAILED, "toy: the system gave no address range for the device's memory");
  return static_cast<std::byte*>(pages);
}

}  // namespace

Memory::Memory(int device)
    : device_(device),
      window_(map_pages(PROT_NONE)),
      bytes_(map_pages(PROT_READ | PROT_WRITE)),
      free_{{0, kCapacity}} {}

void* Memory::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  const size_t wanted = bytes <= kCapacity ? rounded(bytes) : bytes;
  const auto fits = [&](const auto& block) { return block.second >= wanted; };
  const auto found = std::find_if(free_.begin(), free_.end(), fits);
  const bool over_limit = stats_.limit != 0 && stats_.allocated + wanted > stats_.limit;
  if (found == free_.end() || over_limit)
    throw OutOfMemoryError(
        concat("toy:", device_, ": out of memory: ", bytes, " bytes do not fit into ",
               over_limit ? "the configured limit" : "the device's memory", " (allocated ",
               stats_.allocated, ", largest free block ", largest_free(), ", capacity ", kCapacity,
               " bytes). Free tensors you no longer need, or use a smaller batch."));
  const auto [offset, size] = *found;
  free_.erase(found);
  if (size > wanted) free_.emplace(offset + wanted, size - wanted);
  ++stats_.allocations;
  stats_.allocated += wanted;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  return window_ + offset;
}

// The block may still be named by kernels in the queue. Whoever gets it next can only use it
// through the same queue, that is, after them.
void Memory::free(void* block, size_t bytes) noexcept {
  if (!block) return;
  const std::lock_guard lock(mutex_);
  size_t size = rounded(bytes);
  stats_.allocated -= size;
  auto offset = static_cast<size_t>(static_cast<std::byte*>(block) - window_);
  const auto next = free_.find(offset + size);
  if (next != free_.end()) {
    size += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_.emplace(offset, size);
}

MemoryStats Memory::stats() const {
  const std::lock_guard lock(mutex_);
  MemoryStats result = stats_;
  result.reserved = result.allocated;
  result.peak_reserved = result.peak_allocated;
  result.largest_free = largest_free();
  return result;
}

void Memory::set_limit(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  stats_.limit = bytes;
}

void Memory::reset_peaks() {
  const std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
}

uint64_t Memory::largest_free() const {
  uint64_t largest = 0;
  for (const auto& [offset, size] : free_) largest = std::max<uint64_t>(largest, size);
  return largest;
}

std::byte* Memory::local(const void* address) const {
  const std::ptrdiff_t offset = static_cast<const std::byte*>(address) - window_;
  ensure(offset >= 0 && static_cast<size_t>(offset) <= kCapacity, "toy:", device_,
         ": an address of another device");
  return bytes_ + offset;
}

Memory& memory(int index) {
  // Never destroyed: tensors in static storage may be freed after this would be.
  static const auto* devices = new std::array<Memory*, kDeviceCount>{new Memory(0), new Memory(1)};
  check(index >= 0 && index < kDeviceCount, "toy: there is no device ", index);
  return *(*devices)[static_cast<size_t>(index)];
}

}  // namespace tensora::toy

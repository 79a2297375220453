#pragma once

#include <map>
#include <mutex>

#include "tensora/core/backend.h"
#include "tensora/core/view.h"

namespace tensora::toy {

inline constexpr int kDeviceCount = 2;
inline constexpr size_t kCapacity = size_t{256} << 20;  // bytes per device

/// The memory of one toy device, and its allocator.
///
/// A tensor on the device holds an address in a window that is reserved but never backed by pages:
/// a host program that follows it faults, as it would with a GPU's address. The bytes lie
/// elsewhere, and only what runs on the device knows where (`local`).
class Memory final : public Allocator {
 public:
  explicit Memory(int device);

  void* allocate(size_t bytes) override;
  void free(void* block, size_t bytes) noexcept override;
  MemoryStats stats() const override;
  void empty_cache() override {}  // nothing is cached: a freed block is free
  void set_limit(uint64_t bytes) override;
  void reset_peaks() override;

  /// The bytes behind an address of this device, for the device's own use.
  std::byte* local(const void* address) const;

 private:
  uint64_t largest_free() const;

  const int device_;
  std::byte* window_;  // what tensors hold
  std::byte* bytes_;   // what is behind it
  mutable std::mutex mutex_;
  std::map<size_t, size_t> free_;  // offset → bytes; neighbours are merged
  MemoryStats stats_;
};

/// The memory of device number `index`.
Memory& memory(int index);

}  // namespace tensora::toy

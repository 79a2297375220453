#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tensora/core/device.h"

namespace tensora {

struct View;

/// Statistics of an allocator; all in bytes except the counts.
struct MemoryStats {
  uint64_t allocated = 0;  // in live blocks
  uint64_t reserved = 0;   // live and cached blocks
  uint64_t peak_allocated = 0;
  uint64_t peak_reserved = 0;
  uint64_t limit = 0;  // 0: none
  uint64_t largest_free = 0;
  uint64_t allocations = 0;  // calls so far
  uint64_t cache_hits = 0;   // of those, served without asking the system
  uint64_t cache_limit =
      0;  // the most memory that the cache of freed blocks may hold; 0: not settable
  uint64_t returned = 0;  // to the system, since the process began
};

/// Allocates and frees a device's memory. Blocks over 1 KiB are aligned to at least 64 bytes,
/// smaller ones to 16.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Throws OutOfMemoryError. `bytes` may be 0 (the result is then null).
  virtual void* allocate(size_t bytes) = 0;
  /// `bytes` must be the size that was allocated.
  virtual void free(void* block, size_t bytes) noexcept = 0;
  virtual MemoryStats stats() const = 0;
  /// Gives cached blocks back to the system.
  virtual void empty_cache() = 0;
  /// 0 removes the limit.
  virtual void set_limit(uint64_t bytes) = 0;
  /// Limits the cache of freed blocks. Throws unless the allocator has such a limit.
  virtual void set_cache_limit(uint64_t bytes);
  virtual void reset_peaks() = 0;
};

/// The version of what a backend's library and libtensora share: the classes here, the views and
/// contexts that kernels see, the ops' kernel slots. Raised with every change of their layout.
inline constexpr int kBackendAbi = 2;

/// What a device implements, beside its kernels. A backend other than the CPU's is a library,
/// libtensora_NAME.so, with two functions: `extern "C" int tensora_NAME_abi()` returns the
/// kBackendAbi that it was compiled with, and `extern "C" Backend* tensora_NAME_backend()` sets the
/// kernels and throws an Error if the device cannot be used. See docs/add-a-backend.md.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual int device_count() = 0;
  virtual Allocator& allocator(Device device) = 0;
  /// Copies contiguous bytes between two devices, at least one of which is this backend's. Runs
  /// after all work queued so far; a copy to the host is complete on return.
  virtual void copy_bytes(void* to, Device to_device, const void* from, Device from_device,
                          size_t bytes) = 0;
  /// Waits until everything queued on the device is done.
  virtual void synchronize(Device device) = 0;
};

/// The backend of a kind of device. The first call for a kind loads it; a missing library, driver
/// or device throws an Error that says which.
Backend& backend(DeviceType type);
/// Whether there is a library for devices of that name; it is not opened.
bool has_backend_library(std::string_view kind);
/// Whether `backend(type)` would work and finds a device. Never throws.
bool is_available(DeviceType type);
/// Why `is_available` is false; empty when it is true.
std::string unavailable_reason(DeviceType type);
/// Throws unless the device exists, saying how many there are.
void require_device(Device device);

inline Allocator& allocator(Device device) { return backend(device.type).allocator(device); }
/// Copies contiguous bytes between any two devices that have memory, through the host if they
/// are of different kinds. Ordered as Backend::copy_bytes is.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes);
/// Waits until everything queued on the device is done.
void synchronize(Device device);
/// Memory statistics of a device.
MemoryStats memory_stats(Device device = {});
/// Gives the cached memory of a device back to the system.
void empty_cache(Device device = {});
/// Limits what a device's allocator may reserve; 0 removes the limit.
void set_memory_limit(Device device, uint64_t bytes);
/// Limits how much freed memory a device's allocator caches for later tensors; beyond it, the least
/// recently used blocks are returned to the system. The CPU keeps a quarter of the machine's memory
/// unless TENSORA_CPU_CACHE_LIMIT says otherwise. Throws for a device whose cache has no limit.
void set_cache_limit(Device device, uint64_t bytes);

}  // namespace tensora

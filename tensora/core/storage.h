#pragma once

#include "tensora/base/intrusive_ptr.h"
#include "tensora/base/object_pool.h"
#include "tensora/base/owner.h"
#include "tensora/core/backend.h"
#include "tensora/core/device.h"

namespace tensora {

/// A block of memory on a device that tensors share: its owner, its size, and a counter of the
/// in-place writes to it (all views of one storage share the counter).
class Storage final : public RefCounted, public Pooled {
 public:
  static IntrusivePtr<Storage> allocate(size_t bytes, Device device);
  /// Memory that somebody else owns; `owner` is released with the storage.
  static IntrusivePtr<Storage> wrap(void* data, size_t bytes, Device device, Owner owner);
  /// The same for memory that must not be written to.
  static IntrusivePtr<Storage> wrap(const void* data, size_t bytes, Device device, Owner owner);
  /// A storage whose memory does not exist yet: `data()` is null until `provide` is called.
  static IntrusivePtr<Storage> defer(size_t bytes, Device device);
  static void destroy(Storage* storage) { delete storage; }
  ~Storage();

  void* data() const { return data_; }
  void* mutable_data() const { return data_; }
  size_t bytes() const { return bytes_; }
  size_t nbytes() const { return bytes_; }
  Device device() const { return device_; }

  /// Gives a deferred storage memory of its own, or a part of memory that `owner` keeps alive.
  void provide();
  void provide(void* data, Owner owner);
  bool read_only() const { return read_only_; }

  uint32_t version() const { return version_.load_relaxed(); }
  void bump_version() { version_.add_relaxed(1); }

 private:
  Storage() = default;

  void* data_ = nullptr;
  size_t bytes_ = 0;
  Allocator* allocator_ = nullptr;
  Owner owner_;
  Device device_;
  bool read_only_ = false;
  Atomic<uint32_t> version_{0};
};

}  // namespace tensora

#include "tensora/core/storage.h"

#include <atomic>

namespace tensora {

namespace {

constinit std::atomic<Allocator*> known_host_allocator = nullptr;

[[gnu::noinline]] Allocator& find_host_allocator() {
  Allocator& host = tensora::allocator(DeviceType::cpu);
  known_host_allocator.store(&host, std::memory_order_release);
  return host;
}

// Saves two indirections. A static reference would have a guard, for which the fast path would save
// registers.
Allocator& host_allocator() {
  Allocator* const known = known_host_allocator.load(std::memory_order_acquire);
  return known ? *known : find_host_allocator();
}

}  // namespace

IntrusivePtr<Storage> Storage::allocate(size_t bytes, Device device) {
  auto storage = defer(bytes, device);
  if (device.is_cpu()) [[likely]] {
    Allocator& host = host_allocator();
    storage->data_ = host.allocate(bytes);
    storage->allocator_ = &host;
  } else if (!device.is_meta()) {
    storage->provide();
  }
  return storage;
}

IntrusivePtr<Storage> Storage::defer(size_t bytes, Device device) {
  auto storage = IntrusivePtr<Storage>::adopt(new Storage);
  storage->device_ = device;
  storage->bytes_ = bytes;
  return storage;
}

void Storage::provide() {
  Allocator& source = tensora::allocator(device_);
  data_ = source.allocate(bytes_);
  allocator_ = &source;
}

void Storage::provide(void* data, Owner owner) {
  data_ = data;
  owner_ = std::move(owner);
}

IntrusivePtr<Storage> Storage::wrap(void* data, size_t bytes, Device device, Owner owner) {
  auto storage = defer(bytes, device);
  storage->provide(data, std::move(owner));
  return storage;
}

IntrusivePtr<Storage> Storage::wrap(const void* data, size_t bytes, Device device, Owner owner) {
  auto storage = wrap(const_cast<void*>(data), bytes, device, std::move(owner));
  storage->read_only_ = true;
  return storage;
}

Storage::~Storage() {
  if (allocator_) allocator_->free(data_, bytes_);
}

}  // namespace tensora

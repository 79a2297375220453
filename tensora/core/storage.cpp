#include "tensora/core/storage.h"

namespace tensora {

IntrusivePtr<Storage> Storage::allocate(size_t bytes, Device device) {
  auto storage = defer(bytes, device);
  if (!device.is_meta()) storage->provide();
  return storage;
}

IntrusivePtr<Storage> Storage::defer(size_t bytes, Device device) {
  auto storage = IntrusivePtr<Storage>::adopt(new Storage);
  storage->device_ = device;
  storage->bytes_ = bytes;
  return storage;
}

void Storage::provide() {
  static Allocator& host = tensora::allocator(DeviceType::cpu);  // saves two indirections
  Allocator& source = device_.is_cpu() ? host : tensora::allocator(device_);
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

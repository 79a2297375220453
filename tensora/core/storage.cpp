#include "tensora/core/storage.h"

namespace tensora {

IntrusivePtr<Storage> Storage::allocate(size_t bytes, Device device) {
  auto storage = IntrusivePtr<Storage>::adopt(new Storage);
  storage->device_ = device;
  storage->bytes_ = bytes;
  if (device.is_meta()) return storage;
  static Allocator& host = tensora::allocator(DeviceType::cpu);  // saves two indirections
  Allocator& source = device.is_cpu() ? host : tensora::allocator(device);
  storage->data_ = source.allocate(bytes);
  storage->allocator_ = &source;
  return storage;
}

IntrusivePtr<Storage> Storage::wrap(void* data, size_t bytes, Device device, Owner owner) {
  auto storage = IntrusivePtr<Storage>::adopt(new Storage);
  storage->device_ = device;
  storage->bytes_ = bytes;
  storage->data_ = data;
  storage->owner_ = std::move(owner);
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

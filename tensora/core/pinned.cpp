#include "tensora/core/pinned.h"

#include <array>
#include <atomic>

#include "tensora/core/backend.h"

namespace tensora {
namespace {

std::array<std::atomic<const PinnedMemory*>, kDeviceTypeCount> memories;

}  // namespace

const PinnedMemory* pinned_memory(DeviceType type) {
  if (type == DeviceType::cpu || type == DeviceType::meta) return nullptr;
  backend(type);
  return memories[static_cast<size_t>(type)].load(std::memory_order_acquire);
}

void set_pinned_memory(DeviceType type, const PinnedMemory* memory) {
  memories[static_cast<size_t>(type)].store(memory, std::memory_order_release);
}

}  // namespace tensora

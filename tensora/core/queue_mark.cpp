#include "tensora/core/queue_mark.h"

#include <array>
#include <atomic>

namespace tensora {
namespace {

std::array<std::atomic<QueueMarkMaker>, kDeviceTypeCount> makers;

}  // namespace

std::unique_ptr<QueueMark> make_queue_mark(Device device) {
  const auto maker = makers[static_cast<size_t>(device.type)].load(std::memory_order_acquire);
  return maker ? maker(device) : nullptr;
}

void set_queue_mark_maker(DeviceType type, QueueMarkMaker maker) {
  makers[static_cast<size_t>(type)].store(maker, std::memory_order_release);
}

}  // namespace tensora

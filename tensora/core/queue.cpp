#include "tensora/core/queue.h"

#include <array>
#include <atomic>

namespace tensora {
namespace {

std::array<std::atomic<QueueControl*>, kDeviceTypeCount> controls;
std::atomic<bool> loaded{false};

}  // namespace

bool has_queues() { return loaded.load(std::memory_order_acquire); }

QueueControl* queue_control(DeviceType type) {
  return controls[static_cast<size_t>(type)].load(std::memory_order_acquire);
}

void set_queue_control(DeviceType type, QueueControl* control) {
  controls[static_cast<size_t>(type)].store(control, std::memory_order_release);
  loaded.store(true, std::memory_order_release);
}

Queue current_queue(Device device) {
  QueueControl* const control = queue_control(device.type);
  return control ? control->current(device) : Queue();
}

}  // namespace tensora

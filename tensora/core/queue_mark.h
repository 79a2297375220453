#pragma once

#include <memory>

#include "tensora/core/device.h"

namespace tensora {

/// A point in the queue of a device. The host can wait until the device has come there, while what
/// was queued behind it goes on; see Note [Queues].
class QueueMark {
 public:
  QueueMark() = default;
  QueueMark(const QueueMark&) = delete;
  QueueMark& operator=(const QueueMark&) = delete;
  virtual ~QueueMark() = default;
  /// Puts it behind the work that this thread has queued so far.
  virtual void set() = 0;
  /// Waits for the work before it; returns immediately where it was never set. Throws where a
  /// kernel met an error that only the device could see.
  virtual void wait() = 0;
};

/// Null where the kind of device has no queues, or its backend is not loaded.
std::unique_ptr<QueueMark> make_queue_mark(Device device);

using QueueMarkMaker = std::unique_ptr<QueueMark> (*)(Device device);
/// Called once, by the backend.
void set_queue_mark_maker(DeviceType type, QueueMarkMaker maker);

}  // namespace tensora

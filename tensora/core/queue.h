#pragma once

#include <functional>
#include <memory>

#include "tensora/core/device.h"

namespace tensora {

// Note [Queues]
// A device such as a GPU executes work from queues (streams): an op returns as soon as it is
// queued. Code that runs ops on several queues, as backward does, has to know which queue is
// current, and to make one wait for another without blocking the host. A backend with queues
// provides a QueueControl; without one (the CPU, or a backend that is not loaded) there is nothing
// to order.

/// One of a device's queues; without a device that has them, none.
struct Queue {
  Device device;
  void* handle = nullptr;  // null may be a device's default queue

  bool is_none() const { return device.is_cpu(); }
  bool operator==(const Queue&) const = default;
};

/// Work of a queue that was recorded once and is started as a whole.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Queues it on the thread's current queue.
  virtual void replay() = 0;
};

class QueueControl {
 public:
  virtual ~QueueControl() = default;
  /// The queue on which this thread works.
  virtual Queue current(Device device) = 0;
  virtual void set_current(const Queue& queue) = 0;
  /// Work queued later on `second` starts after the work queued so far on `first`.
  virtual void order(const Queue& first, const Queue& second) = 0;
  /// Memory that belongs to another queue is used by work on `user`: once freed, it is not reused
  /// until that work is done.
  virtual void keep_for(void* memory, const Queue& user) = 0;
  /// Whether this thread may use the queue now; false while it captures another one.
  virtual bool is_usable(const Queue& queue) = 0;
  /// Records what `body` queues on the device instead of running it. What body makes lives in
  /// memory that stays reserved as long as the result does, and holds the values of the last
  /// replay. Run body once before. It must not write weights that it multiplies by: kernels may
  /// fetch these before the work in front of them has ended.
  virtual std::unique_ptr<RecordedWork> record(Device device,
                                               const std::function<void()>& body) = 0;
};

/// Whether any backend with queues is loaded.
bool has_queues();
/// Null where the kind of device has no queues, or its backend is not loaded.
QueueControl* queue_control(DeviceType type);
/// Called once, by the backend. The object must never be destroyed.
void set_queue_control(DeviceType type, QueueControl* control);

/// The queue on which this thread works for the device.
Queue current_queue(Device device);

}  // namespace tensora

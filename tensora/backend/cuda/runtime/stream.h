#pragma once

// Streams and events as objects. No CUDA header is needed to use them.

#include <cstdint>
#include <memory>

#include "tensora/core/device.h"

namespace tensora::cuda {

class Event;

/// A queue of work on one device; work of different streams may overlap. A handle: copies share the
/// queue. The last handle gives the queue to a pool, from which a later Stream may get it again;
/// work that is still queued there runs on.
class Stream {
 public:
  /// A queue of its own on `device`.
  explicit Stream(Device device = DeviceType::cuda);
  /// The one on which this thread queues its work; the device's default stream initially.
  static Stream current(Device device = DeviceType::cuda);

  Device device() const { return device_; }
  /// The cudaStream_t.
  void* handle() const { return handle_; }
  /// Waits until everything queued so far is done.
  void synchronize() const;
  bool is_idle() const;
  /// What is queued from now on starts after the event.
  void wait(const Event& event) const;
  bool operator==(const Stream& other) const {
    return handle_ == other.handle_ && device_ == other.device_;
  }

 private:
  Stream(Device device, void* handle) : device_(device), handle_(handle) {}

  Device device_;
  void* handle_ = nullptr;
  std::shared_ptr<void> owner_;
};

/// Makes a stream the current one of this thread for a scope.
class StreamGuard {
 public:
  explicit StreamGuard(Stream stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream stream_;
  void* previous_;
};

/// A marker in a stream. `record` sets it after the work queued so far.
class Event {
 public:
  enum class Timing : bool { off, on };

  explicit Event(Device device = DeviceType::cuda, Timing timing = Timing::off);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  /// On the thread's current stream, or on the given one of the same device.
  void record();
  void record(const Stream& stream);
  /// Waits for the marker; returns immediately if it was never recorded.
  void synchronize() const;
  bool is_done() const;
  /// The time between two recorded and completed markers with timing.
  float milliseconds_since(const Event& start) const;

  Device device() const { return device_; }
  /// The cudaEvent_t.
  void* handle() const { return handle_; }

 private:
  Device device_;
  void* handle_ = nullptr;
};

/// How often this process has waited for a device so far, on purpose or as a side effect; see
/// Note [Counted waits] in wait.h. A step that keeps the device busy leaves it unchanged.
uint64_t wait_count() noexcept;

}  // namespace tensora::cuda

#include "tensora/backend/cuda/runtime/stream.h"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/fault.h"
#include "tensora/backend/cuda/runtime/fork.h"
#include "tensora/backend/cuda/runtime/order.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/wait.h"
#include "tensora/base/check.h"
#include "tensora/core/backend.h"
#include "tensora/core/deferred.h"

namespace tensora::cuda {
namespace {

cudaStream_t as_stream(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t as_event(void* handle) { return static_cast<cudaEvent_t>(handle); }

void require_cuda_device(Device device, std::string_view what) {
  require_not_forked();
  check(device.is_cuda(), what, ": expected a cuda device, got ", device);
  require_device(device);
}

// Note [Streams are never destroyed]
// The allocator hands a freed block to later work of the same stream without waiting. A destroyed
// stream's handle may come back for a new stream that knows nothing of the old one's queued work,
// so handles are kept and used again instead.
class StreamPool {
 public:
  cudaStream_t take(int device) {
    std::lock_guard lock(mutex_);
    if (free_.size() <= static_cast<size_t>(device)) free_.resize(static_cast<size_t>(device) + 1);
    std::vector<cudaStream_t>& list = free_[static_cast<size_t>(device)];
    if (!list.empty()) {
      cudaStream_t stream = list.back();
      list.pop_back();
      return stream;
    }
    const DeviceGuard guard(device);
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    return stream;
  }
  void give_back(int device, cudaStream_t stream) {
    std::lock_guard lock(mutex_);
    free_[static_cast<size_t>(device)].push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<cudaStream_t>> free_;
};

StreamPool& stream_pool() {
  static auto* pool = new StreamPool;
  return *pool;
}

}  // namespace

Stream::Stream(Device device) : device_(device) {
  require_cuda_device(device, "Stream");
  handle_ = stream_pool().take(device.index);
  owner_ = std::shared_ptr<void>(handle_, [index = device.index](void* handle) {
    stream_pool().give_back(index, as_stream(handle));
  });
}

Stream Stream::current(Device device) {
  require_cuda_device(device, "Stream::current");
  return {device, current_stream(device.index)};
}

void Stream::synchronize() const {
  flush_deferred();
  refuse_capture("Stream::synchronize");
  require_not_forked();
  const DeviceGuard guard(device_.index);
  check_cuda(wait_for_stream(as_stream(handle_)), "cudaStreamSynchronize");
  throw_noted_fault(device_.index);
}

bool Stream::is_idle() const {
  refuse_capture("Stream::is_idle");
  require_not_forked();
  const DeviceGuard guard(device_.index);
  const cudaError_t status = cudaStreamQuery(as_stream(handle_));
  if (status == cudaErrorNotReady) return false;
  check_cuda(status, "cudaStreamQuery");
  return true;
}

void Stream::wait(const Event& event) const {
  const DeviceGuard guard(device_.index);
  check_cuda(cudaStreamWaitEvent(as_stream(handle_), as_event(event.handle()), 0),
             "cudaStreamWaitEvent");
}

StreamGuard::StreamGuard(Stream stream)
    : stream_(std::move(stream)), previous_(current_stream(stream_.device().index)) {
  set_current_stream(stream_.device().index, as_stream(stream_.handle()));
}

StreamGuard::~StreamGuard() { set_current_stream(stream_.device().index, as_stream(previous_)); }

Event::Event(Device device, Timing timing) : device_(device) {
  require_cuda_device(device, "Event");
  const DeviceGuard guard(device.index);
  cudaEvent_t event = nullptr;
  const unsigned flags = timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming;
  check_cuda(cudaEventCreateWithFlags(&event, flags), "cudaEventCreate");
  handle_ = event;
}

Event::~Event() {
  if (handle_) cudaEventDestroy(as_event(handle_));
}

Event::Event(Event&& other) noexcept
    : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

void Event::record() { record(Stream::current(device_)); }

void Event::record(const Stream& stream) {
  flush_deferred();
  check(stream.device() == device_, "Event::record: the event is of ", device_, ", the stream of ",
        stream.device());
  const DeviceGuard guard(device_.index);
  check_cuda(cudaEventRecord(as_event(handle_), as_stream(stream.handle())), "cudaEventRecord");
}

void Event::synchronize() const {
  refuse_capture("Event::synchronize");
  require_not_forked();
  check_cuda(wait_for_event(as_event(handle_)), "cudaEventSynchronize");
  throw_noted_fault(device_.index);
}

bool Event::is_done() const {
  refuse_capture("Event::is_done");
  require_not_forked();
  const cudaError_t status = cudaEventQuery(as_event(handle_));
  if (status == cudaErrorNotReady) return false;
  check_cuda(status, "cudaEventQuery");
  return true;
}

void order_streams(DeviceStream first, DeviceStream second) {
  if (first.stream == second.stream && first.device == second.device) return;
  // What a stream was told to wait for is fixed by the call, so one event per device serves again
  // and again.
  static std::mutex mutex;
  static auto* events = new std::vector<cudaEvent_t>(static_cast<size_t>(device_count()));
  std::lock_guard lock(mutex);
  cudaEvent_t& event = (*events)[static_cast<size_t>(first.device)];
  {
    const DeviceGuard guard(first.device);
    if (!event)
      check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    check_cuda(cudaEventRecord(event, first.stream), "cudaEventRecord");
  }
  const DeviceGuard guard(second.device);
  check_cuda(cudaStreamWaitEvent(second.stream, event, 0), "cudaStreamWaitEvent");
}

float Event::milliseconds_since(const Event& start) const {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, as_event(start.handle_), as_event(handle_)),
             "cudaEventElapsedTime");
  return milliseconds;
}

}  // namespace tensora::cuda

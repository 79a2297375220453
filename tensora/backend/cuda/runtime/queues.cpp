// The CUDA streams as the queues of core/queue.h.
#include "tensora/backend/cuda/runtime/queues.h"
#include "tensora/backend/cuda/memory/allocator.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/fault.h"
#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/backend/cuda/runtime/order.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tensora/core/queue.h"
#include "tensora/core/queue_mark.h"

namespace tensora::cuda {
namespace {

cudaStream_t stream_of(const Queue& queue) { return static_cast<cudaStream_t>(queue.handle); }

class RecordedGraph final : public RecordedWork {
 public:
  RecordedGraph(Device device, const std::function<void()>& body) : graph_(device) {
    const EarlyLaunches scope;
    graph_.capture(body);
  }
  void replay() override { graph_.replay(); }

 private:
  Graph graph_;
};

class StreamControl final : public QueueControl {
 public:
  Queue current(Device device) override { return {device, current_stream(device.index)}; }
  void set_current(const Queue& queue) override {
    set_current_stream(queue.device.index, stream_of(queue));
  }
  void order(const Queue& first, const Queue& second) override {
    order_streams({first.device.index, stream_of(first)}, {second.device.index, stream_of(second)});
  }
  void keep_for(void* memory, const Queue& user) override {
    caching_allocator(user.device.index).record_stream(memory, stream_of(user));
  }
  // A graph holds only what is queued on streams that take part in the recording.
  bool is_usable(const Queue& queue) override {
    if (!current_capture()) return true;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const DeviceGuard guard(queue.device.index);
    return cudaStreamIsCapturing(stream_of(queue), &status) == cudaSuccess &&
           status == cudaStreamCaptureStatusActive;
  }
  std::unique_ptr<RecordedWork> record(Device device, const std::function<void()>& body) override {
    return std::make_unique<RecordedGraph>(device, body);
  }
};

class StreamMark final : public QueueMark {
 public:
  explicit StreamMark(Device device) : event_(device) {}
  void set() override { event_.record(); }
  void wait() override {
    event_.synchronize();
    throw_noted_fault(event_.device().index);
  }

 private:
  Event event_;
};

}  // namespace

void register_queues() {
  set_queue_control(DeviceType::cuda, new StreamControl);
  set_queue_mark_maker(DeviceType::cuda, [](Device device) -> std::unique_ptr<QueueMark> {
    return std::make_unique<StreamMark>(device);
  });
}

}  // namespace tensora::cuda

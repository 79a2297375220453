#include "tensora/torch/scope.h"

#include <ATen/Context.h>
#include <c10/core/InferenceMode.h>

#include "tensora/core/queue.h"
#include "tensora/torch/bridge.h"

#ifdef TENSORA_TORCH_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>
#endif

namespace tensora::torch {

#ifdef TENSORA_TORCH_CUDA
namespace {

namespace memory = c10::cuda::CUDACachingAllocator;

// Graphs that use cuBLAS's workspaces, which must not be freed as long as there are any.
std::atomic<int64_t> live_pools{0};

c10::cuda::CUDAStream torch_stream(Device device) {
  const Queue queue = current_queue(device);
  return c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(queue.handle), device.index);
}

Queue queue_of(const c10::cuda::CUDAStream& stream, Device device) {
  return {device, stream.stream()};
}

// Newer allocators want to know that a capture has begun.
template <class Allocator>
void mark_capture(Allocator* allocator, c10::DeviceIndex device, bool begins) {
  if constexpr (requires { allocator->markCaptureBegin(device); })
    begins ? allocator->markCaptureBegin(device) : allocator->markCaptureEnd(device);
}

/// Memory of LibTorch's allocator that serves one graph.
class Pool {
 public:
  explicit Pool(c10::cuda::CUDAStream stream)
      : device_(stream.device_index()), id_(at::cuda::graph_pool_handle()) {
    memory::beginAllocateToPool(
        device_, id_, [wanted = stream.stream()](cudaStream_t given) { return given == wanted; });
    mark_capture(memory::get(), device_, true);
    ++live_pools;
  }
  ~Pool() {
    try {
      memory::releasePool(device_, id_);
    } catch (const std::exception&) {
      // The device is lost; so is its memory.
    }
    --live_pools;
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  void end() const {
    mark_capture(memory::get(), device_, false);
    memory::endAllocateToPool(device_, id_);
  }

 private:
  c10::DeviceIndex device_;
  at::MempoolId_t id_;
};

}  // namespace

struct Scope::State {
  explicit State(Device device) {
    if (!device.is_cuda()) return;
    const auto stream = torch_stream(device);
    guard.emplace(stream);
    if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None)
      pool = std::make_shared<Pool>(stream);
  }
  ~State() {
    if (pool) pool->end();
  }

  c10::InferenceMode silent;
  std::optional<c10::cuda::CUDAStreamGuard> guard;
  std::shared_ptr<Pool> pool;
};

Tensor Scope::result(const at::Tensor& tensor) const {
  return state_->pool ? from_torch(tensor, Owner(state_->pool)) : from_torch(tensor);
}

bool Scope::is_recording() const { return state_->pool != nullptr; }

TorchMemory torch_memory(Device device) {
  if (!device.is_cuda() || !memory::get()->initialized()) return {};
  const auto stats = memory::getDeviceStats(device.index);
  constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {stats.allocated_bytes[all].current, stats.reserved_bytes[all].current};
}

void empty_torch_cache(Device device) noexcept {
  if (!device.is_cuda()) return;
  try {
    if (live_pools == 0) at::cuda::clearCublasWorkspaces();
    if (memory::get()->initialized()) memory::emptyCache();
  } catch (const std::exception&) {
    // The device is lost; so is its memory.
  }
}

void check_torch_device(Device device) {
  if (device.is_cpu()) return;
  check(device.is_cuda(), "LibTorch: expected the CPU or CUDA, got ", device);
  check(at::globalContext().hasCUDA() && device.index < c10::cuda::device_count(),
        "LibTorch: this build of PyTorch finds no ", device);
  at::globalContext().lazyInitDevice(at::kCUDA);
}

void hand_to_torch(void* start, Device device) {
  const auto theirs = c10::cuda::getCurrentCUDAStream(device.index);
  const Queue ours = current_queue(device), user = queue_of(theirs, device);
  if (ours.handle == user.handle) [[likely]]
    return;
  queue_control(device.type)->order(ours, user);
  queue_control(device.type)->keep_for(start, user);
}

void take_from_torch(const at::Tensor& tensor) {
  const Device device(DeviceType::cuda, tensor.get_device());
  const auto theirs = c10::cuda::getCurrentCUDAStream(device.index);
  const Queue ours = current_queue(device), giver = queue_of(theirs, device);
  if (ours.handle == giver.handle) [[likely]]
    return;
  queue_control(device.type)->order(giver, ours);
  tensor.record_stream(torch_stream(device).unwrap());
}

#else

struct Scope::State {
  explicit State(Device) {}
  c10::InferenceMode silent;
};

Tensor Scope::result(const at::Tensor& tensor) const { return from_torch(tensor); }
bool Scope::is_recording() const { return false; }
TorchMemory torch_memory(Device) { return {}; }
void empty_torch_cache(Device) noexcept {}

void check_torch_device(Device device) {
  check(device.is_cpu(), "LibTorch: this build of PyTorch runs on the CPU only, got ", device);
}
void hand_to_torch(void*, Device device) { check_torch_device(device); }
void take_from_torch(const at::Tensor&) { fail("LibTorch: this build of PyTorch has no CUDA"); }

#endif

Scope::Scope(Device device) : state_(std::make_unique<State>(device)) {}
Scope::~Scope() = default;

}  // namespace tensora::torch

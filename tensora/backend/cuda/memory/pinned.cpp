#include "tensora/backend/cuda/memory/pinned.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/fork.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/wait.h"
#include "tensora/base/check.h"
#include "tensora/base/thread_pool.h"

// Note [Staging]
// The copy engines can access only page-locked memory. A copy from pageable memory goes in chunks
// through pinned blocks: while the engine moves one chunk the processor fills the next. Each block
// has an event after its copy and is reused when that has completed, so nothing waits unless the
// engine is the slower side.

namespace tensora::cuda {
namespace {

constexpr size_t kSmallestBlock = 4096;
constexpr size_t kChunk = size_t{4} << 20;
constexpr size_t kMaxRestingBytes = size_t{64} << 20;
constexpr int64_t kBytesPerTask = 512 * 1024;

void host_copy(void* to, const void* from, size_t bytes) {
  parallel_for(static_cast<int64_t>(bytes), kBytesPerTask, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace

void* PinnedPool::allocate(size_t bytes) {
  const size_t wanted = std::bit_ceil(std::max(bytes, kSmallestBlock));
  std::lock_guard lock(mutex_);
  collect_reached();
  std::vector<void*>& list = free_[wanted];
  if (!list.empty()) {
    void* block = list.back();
    list.pop_back();
    return block;
  }
  const OutsideCapture outside;
  count_wait();
  void* block = nullptr;
  check_cuda(cudaHostAlloc(&block, wanted, cudaHostAllocPortable), "cudaHostAlloc");
  sizes_[block] = wanted;
  reserved_ += wanted;
  return block;
}

void PinnedPool::free_after(void* block, cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  cudaEvent_t event = nullptr;
  if (!spare_events_.empty()) {
    event = spare_events_.back();
    spare_events_.pop_back();
  } else {
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  }
  check_cuda(cudaEventRecord(event, stream), "cudaEventRecord");
  resting_.push_back({event, block});
  resting_bytes_ += sizes_.at(block);
  // Bounds the staging memory: beyond this the processor is ahead of the engine anyway.
  if (resting_bytes_ > kMaxRestingBytes)
    check_cuda(wait_for_event(resting_.front().event), "cudaEventSynchronize");
}

void PinnedPool::free_now(void* block) {
  std::lock_guard lock(mutex_);
  free_[sizes_.at(block)].push_back(block);
}

void PinnedPool::note_use(void* block, DeviceStream user) {
  std::lock_guard lock(mutex_);
  const auto [known, is_new] = users_.emplace(block, user);
  if (is_new) return;
  order_streams(known->second, user);
  known->second = user;
}

void PinnedPool::free(void* block) {
  if (is_forked()) return;
  std::unique_lock lock(mutex_);
  const auto user = users_.extract(block);
  lock.unlock();
  if (user.empty()) return free_now(block);
  const DeviceGuard guard(user.mapped().device);
  free_after(block, user.mapped().stream);
}

bool PinnedPool::holds(const void* block) const {
  std::lock_guard lock(mutex_);
  return sizes_.contains(block);
}

size_t PinnedPool::reserved() const {
  std::lock_guard lock(mutex_);
  return reserved_;
}

void PinnedPool::collect_reached() {
  // Any stream may be first to finish, so all are asked, not only the oldest.
  std::erase_if(resting_, [this](const Resting& entry) {
    if (cudaEventQuery(entry.event) == cudaErrorNotReady) return false;
    spare_events_.push_back(entry.event);
    const size_t bytes = sizes_.at(entry.block);
    resting_bytes_ -= bytes;
    free_[bytes].push_back(entry.block);
    return true;
  });
}

PinnedPool& pinned_pool() {
  static auto* pool = new PinnedPool;
  return *pool;
}

void copy_to_device(int device, void* to, const void* from, size_t bytes) {
  use_device(device);
  const cudaStream_t stream = current_stream(device);
  PinnedPool& pool = pinned_pool();
  for (size_t done = 0; done < bytes; done += kChunk) {
    const size_t part = std::min(kChunk, bytes - done);
    void* staging = pool.allocate(part);
    host_copy(staging, static_cast<const char*>(from) + done, part);
    const cudaError_t status = cudaMemcpyAsync(static_cast<char*>(to) + done, staging, part,
                                               cudaMemcpyHostToDevice, stream);
    pool.free_after(staging, stream);
    check_cuda(status, "the copy to the device");
  }
}

void copy_to_host(int device, void* to, const void* from, size_t bytes) {
  use_device(device);
  const cudaStream_t stream = current_stream(device);
  PinnedPool& pool = pinned_pool();
  struct Part {
    void* staging = nullptr;
    size_t at = 0, bytes = 0;
    cudaEvent_t event = nullptr;
  };
  Part parts[2];
  // Takes what the engine has brought into a staging block out of it.
  const auto finish = [&](Part& part) {
    if (!part.staging) return;
    const cudaError_t status = wait_for_event(part.event);
    cudaEventDestroy(part.event);
    if (status == cudaSuccess)
      host_copy(static_cast<char*>(to) + part.at, part.staging, part.bytes);
    pool.free_now(part.staging);
    part.staging = nullptr;
    check_cuda(status, "the copy to the host");
  };
  size_t turn = 0;
  for (size_t done = 0; done < bytes; done += kChunk, ++turn) {
    Part& part = parts[turn % 2];
    finish(part);
    part.at = done;
    part.bytes = std::min(kChunk, bytes - done);
    part.staging = pool.allocate(part.bytes);
    check_cuda(cudaEventCreateWithFlags(&part.event, cudaEventDisableTiming), "cudaEventCreate");
    check_cuda(cudaMemcpyAsync(part.staging, static_cast<const char*>(from) + done, part.bytes,
                               cudaMemcpyDeviceToHost, stream),
               "the copy to the host");
    check_cuda(cudaEventRecord(part.event, stream), "cudaEventRecord");
  }
  finish(parts[turn % 2]);
  finish(parts[(turn + 1) % 2]);
}

}  // namespace tensora::cuda

// The allocator's reports: statistics, snapshots and the out-of-memory error.
#include "tensora/backend/cuda/memory/memory.h"

#include <algorithm>
#include <bit>

#include "tensora/backend/cuda/memory/allocator.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/base/check.h"
#include "tensora/core/tensor.h"

namespace tensora::cuda {
namespace {

constexpr size_t kLargestListed = 5;

std::string mebibytes(uint64_t bytes) {
  return concat(bytes >> 20, ".", (bytes & ((1u << 20) - 1)) * 10 >> 20, " MiB");
}

CachingAllocator& allocator_of(Device device, std::string_view function) {
  check(device.is_cuda(), function, ": expected a CUDA device, got ", device);
  require_device(device);
  return caching_allocator(device.index);
}

}  // namespace

uint64_t CachingAllocator::largest_free() const {
  uint64_t largest = 0;
  blocks_.each([&](const Block& block) {
    if (block.is_free()) largest = std::max<uint64_t>(largest, block.bytes);
  });
  return largest;
}

MemoryStats CachingAllocator::stats() const {
  std::lock_guard lock(mutex_);
  MemoryStats result = stats_;
  result.largest_free = largest_free();
  return result;
}

MemoryReport CachingAllocator::report() const {
  std::lock_guard lock(mutex_);
  MemoryReport result;
  result.totals = stats_;
  result.totals.largest_free = largest_free();
  result.requested = requested_;
  result.segments = segments_.size();
  result.collections = collections_;
  std::array<SizeClass, kClasses> classes;
  for (size_t i = 0; i < kClasses; ++i) {
    const ClassCount& counted = classes_[i];
    classes[i] = {.bytes = uint64_t{1} << i,
                  .allocations = counted.allocations,
                  .live_blocks = counted.live_blocks,
                  .live_bytes = counted.live_bytes};
  }
  uint64_t free_bytes = 0;
  blocks_.each([&](const Block& block) {
    if (block.pool->graph != 0) result.in_graphs += block.bytes;
    if (block.state == Block::State::waiting) result.waiting += block.bytes;
    if (!block.is_free()) return;
    SizeClass& in_class = classes[static_cast<size_t>(std::bit_width(block.bytes - 1))];
    ++in_class.free_blocks;
    in_class.free_bytes += block.bytes;
    free_bytes += block.bytes;
  });
  if (free_bytes > 0)
    result.fragmentation =
        1 - static_cast<double>(result.totals.largest_free) / static_cast<double>(free_bytes);
  for (const SizeClass& in_class : classes)
    if (in_class.allocations + in_class.free_blocks > 0) result.histogram.push_back(in_class);
  return result;
}

std::vector<BlockInfo> CachingAllocator::snapshot() const {
  std::lock_guard lock(mutex_);
  std::vector<BlockInfo> result;
  blocks_.each([&](const Block& block) {
    const auto segment = std::prev(segments_.upper_bound(block.address));
    result.push_back({.address = block.address,
                      .bytes = block.bytes,
                      .requested = block.requested,
                      .segment = segment->first,
                      .stream = block.pool->stream,
                      .is_free = block.is_free(),
                      .in_graph = block.pool->graph != 0});
  });
  std::sort(result.begin(), result.end(),
            [](const BlockInfo& a, const BlockInfo& b) { return a.address < b.address; });
  return result;
}

void CachingAllocator::throw_out_of_memory(size_t bytes, std::string_view reason) const {
  size_t free_bytes = 0, total_bytes = 0;
  {
    const DeviceGuard guard(device_);
    cudaMemGetInfo(&free_bytes, &total_bytes);
  }
  std::vector<size_t> live;
  uint64_t in_graphs = 0;
  blocks_.each([&](const Block& block) {
    if (block.state == Block::State::live) live.push_back(block.requested);
    if (block.pool->graph != 0) in_graphs += block.bytes;
  });
  std::sort(live.rbegin(), live.rend());
  std::string largest;
  for (size_t i = 0; i < std::min(live.size(), kLargestListed); ++i)
    largest += concat(i == 0 ? "" : ", ", mebibytes(live[i]));
  throw OutOfMemoryError(
      concat("cuda:", device_, ": out of memory: ", mebibytes(bytes), " asked for, but ", reason,
             " (allocated ", mebibytes(stats_.allocated), ", reserved ", mebibytes(stats_.reserved),
             in_graphs == 0 ? std::string() : concat(", of that by graphs ", mebibytes(in_graphs)),
             ", limit ", stats_.limit == 0 ? std::string("none") : mebibytes(stats_.limit),
             ", largest cached free block ", mebibytes(largest_free()), "; the device has ",
             mebibytes(free_bytes), " free of ", mebibytes(total_bytes),
             "). Largest live tensors: ", largest.empty() ? std::string("none") : largest,
             ". Free tensors you no longer need, use a smaller batch or a narrower dtype, or call "
             "empty_cache."));
}

MemoryReport memory_report(Device device) { return allocator_of(device, "memory_report").report(); }

std::vector<BlockInfo> memory_snapshot(Device device) {
  return allocator_of(device, "memory_snapshot").snapshot();
}

void record_stream(const Tensor& tensor, const Stream& stream) {
  check(tensor.device() == stream.device(), "record_stream: the tensor is on ", tensor.device(),
        ", the stream on ", stream.device());
  allocator_of(tensor.device(), "record_stream")
      .record_stream(tensor.impl().storage->data(), static_cast<cudaStream_t>(stream.handle()));
}

}  // namespace tensora::cuda

#include "tensora/backend/cuda/allocator.h"

#include <algorithm>

#include "tensora/backend/cuda/runtime.h"
#include "tensora/base/check.h"

// Note [Stream-ordered free]
// cudaMalloc and cudaFree wait for the device, which would stop every op. So memory is taken from
// the device in large segments and cut into blocks. A tensor that dies on the host may still be
// read by kernels queued on its stream; but what its block serves next is queued on the same stream
// behind those kernels, so the block can be handed out again at once. Free blocks are therefore
// kept per stream, and a block that other streams used too (record_stream) rests until events on
// those streams were reached.
//
// Note [Segments and blocks]
// Requests up to 1 MiB share segments of 2 MiB, others up to 10 MiB segments of 20 MiB, larger ones
// get a segment of their own, rounded up to 2 MiB. The smallest free block that fits is cut, the
// rest stays free; neighbours that are free are joined again. The two kinds keep apart, so that
// a small tensor with a long life does not pin a large segment.

namespace tensora::cuda {
namespace {

constexpr size_t kGranule = 512;
constexpr size_t kSmallRequest = size_t{1} << 20;
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kMiddleRequest = size_t{10} << 20;
constexpr size_t kMiddleSegment = size_t{20} << 20;
constexpr size_t kSegmentStep = size_t{2} << 20;
constexpr size_t kLargestListed = 5;

size_t rounded(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

size_t segment_bytes(size_t bytes) {
  if (bytes <= kSmallRequest) return kSmallSegment;
  if (bytes <= kMiddleRequest) return kMiddleSegment;
  return rounded(bytes, kSegmentStep);
}

std::string mebibytes(uint64_t bytes) {
  return concat(bytes >> 20, ".", (bytes & ((1u << 20) - 1)) * 10 >> 20, " MiB");
}

}  // namespace

void* CachingAllocator::allocate(size_t requested) {
  if (requested == 0) return nullptr;
  std::lock_guard lock(mutex_);
  // A size beyond any machine would overflow when rounded up.
  if (requested > (size_t{1} << 50)) throw_out_of_memory(requested, "no device is that large");
  const size_t bytes = rounded(requested, kGranule);
  const bool small = bytes <= kSmallRequest;
  const cudaStream_t stream = current_stream(device_);
  ++stats_.allocations;
  if (!pending_.empty()) collect_reached(false);
  Block* block = take_cached(bytes, stream, small);
  if (block)
    ++stats_.cache_hits;
  else
    block = new_segment(bytes, requested, stream, small);
  split(*block, bytes);
  block->is_free = false;
  block->requested = requested;
  blocks_.emplace(block->address, block);
  stats_.allocated += block->bytes;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  return block->address;
}

Block* CachingAllocator::take_cached(size_t bytes, cudaStream_t stream, bool small) {
  Pool& pool = pools_[stream];
  FreeBlocks& list = small ? pool.small : pool.large;
  Block key;
  key.bytes = bytes;
  const auto found = list.lower_bound(&key);
  if (found == list.end()) return nullptr;
  Block* block = *found;
  list.erase(found);
  return block;
}

Block* CachingAllocator::new_segment(size_t bytes, size_t requested, cudaStream_t stream,
                                     bool small) {
  const size_t segment = segment_bytes(bytes);
  const auto over_limit = [&] {
    return stats_.limit != 0 && stats_.reserved + segment > stats_.limit;
  };
  if (over_limit()) {
    collect_reached(true);
    release_cached();
    if (over_limit()) throw_out_of_memory(requested, "the configured limit is reached");
  }
  void* address = from_device(segment);
  if (!address) {
    collect_reached(true);
    release_cached();
    address = from_device(segment);
  }
  if (!address) throw_out_of_memory(requested, "the device's memory is full");
  auto block = std::make_unique<Block>();
  block->address = static_cast<char*>(address);
  block->bytes = segment;
  block->stream = stream;
  block->small = small;
  segments_.emplace(block->address, segment);
  stats_.reserved += segment;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return block.release();
}

void* CachingAllocator::from_device(size_t bytes) {
  const DeviceGuard guard(device_);
  void* address = nullptr;
  const cudaError_t status = cudaMalloc(&address, bytes);
  if (status == cudaSuccess) return address;
  if (status != cudaErrorMemoryAllocation) fail_cuda(status, "cudaMalloc");
  cudaGetLastError();
  return nullptr;
}

// Cuts `bytes` off the front; the rest becomes a free block, unless it is too small to be of use.
void CachingAllocator::split(Block& block, size_t bytes) {
  const size_t rest = block.bytes - bytes;
  if (rest < (block.small ? kGranule : kSmallRequest)) return;
  auto* remainder = new Block;
  remainder->address = block.address + bytes;
  remainder->bytes = rest;
  remainder->stream = block.stream;
  remainder->small = block.small;
  remainder->before = &block;
  remainder->after = block.after;
  if (block.after) block.after->before = remainder;
  block.after = remainder;
  block.bytes = bytes;
  remainder->is_free = true;
  free_blocks(*remainder).insert(remainder);
}

void CachingAllocator::free(void* address, size_t) noexcept {
  if (!address) return;
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return;
  Block* block = found->second;
  blocks_.erase(found);
  stats_.allocated -= block->bytes;
  block->requested = 0;
  if (block->other_users.empty())
    make_free(block);
  else
    start_waiting(*block);
}

void CachingAllocator::make_free(Block* block) {
  block->is_free = true;
  block = merged(block);
  free_blocks(*block).insert(block);
}

// Joins a block with the free neighbours, which leave their list.
Block* CachingAllocator::merged(Block* block) {
  const auto absorb_next = [this](Block* first) {
    Block* second = first->after;
    first->bytes += second->bytes;
    first->after = second->after;
    if (second->after) second->after->before = first;
    delete second;
  };
  if (block->after && block->after->is_free) {
    free_blocks(*block->after).erase(block->after);
    absorb_next(block);
  }
  if (block->before && block->before->is_free) {
    block = block->before;
    free_blocks(*block).erase(block);
    absorb_next(block);
  }
  return block;
}

void CachingAllocator::record_stream(void* address, cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return;  // memory that somebody else owns
  Block& block = *found->second;
  if (stream == block.stream) return;
  auto& users = block.other_users;
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
}

void CachingAllocator::start_waiting(Block& block) {
  int previous = 0;
  cudaGetDevice(&previous);
  cudaSetDevice(device_);
  for (cudaStream_t stream : block.other_users) {
    cudaEvent_t event = nullptr;
    if (!spare_events_.empty()) {
      event = spare_events_.back();
      spare_events_.pop_back();
    } else if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
      event = nullptr;
    }
    // Without an event the stream is waited for here: slow, but never wrong.
    if (!event || cudaEventRecord(event, stream) != cudaSuccess) {
      cudaStreamSynchronize(stream);
      if (event) spare_events_.push_back(event);
      continue;
    }
    pending_.push_back({event, &block});
    ++block.waiting;
  }
  block.other_users.clear();
  cudaSetDevice(previous);
  if (block.waiting == 0) make_free(&block);
}

void CachingAllocator::collect_reached(bool wait) {
  size_t kept = 0;
  for (const Pending& entry : pending_) {
    const cudaError_t status =
        wait ? cudaEventSynchronize(entry.event) : cudaEventQuery(entry.event);
    if (status == cudaErrorNotReady) {
      pending_[kept++] = entry;
      continue;
    }
    spare_events_.push_back(entry.event);
    if (--entry.block->waiting == 0) make_free(entry.block);
  }
  pending_.resize(kept);
}

// Gives whole free segments back to the device. cudaFree waits for the device, so nothing that is
// still queued can touch them.
void CachingAllocator::release_cached() {
  int previous = 0;
  cudaGetDevice(&previous);
  cudaSetDevice(device_);
  for (auto& [stream, pool] : pools_) {
    for (FreeBlocks* list : {&pool.small, &pool.large}) {
      for (auto it = list->begin(); it != list->end();) {
        Block* block = *it;
        if (block->before || block->after) {
          ++it;
          continue;
        }
        it = list->erase(it);
        cudaFree(block->address);
        stats_.reserved -= block->bytes;
        segments_.erase(block->address);
        delete block;
      }
    }
  }
  cudaSetDevice(previous);
}

MemoryStats CachingAllocator::stats() const {
  std::lock_guard lock(mutex_);
  MemoryStats result = stats_;
  for (const auto& [stream, pool] : pools_)
    for (const FreeBlocks* list : {&pool.small, &pool.large})
      if (!list->empty())
        result.largest_free = std::max<uint64_t>(result.largest_free, (*list->rbegin())->bytes);
  return result;
}

void CachingAllocator::empty_cache() {
  std::lock_guard lock(mutex_);
  collect_reached(true);
  release_cached();
}

void CachingAllocator::set_limit(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  stats_.limit = bytes;
  if (bytes != 0 && stats_.reserved > bytes) {
    collect_reached(true);
    release_cached();
  }
}

void CachingAllocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

std::vector<BlockInfo> CachingAllocator::snapshot() const {
  std::lock_guard lock(mutex_);
  std::vector<BlockInfo> result;
  const auto add = [&](const Block& block) {
    auto segment = segments_.upper_bound(block.address);
    --segment;
    result.push_back({block.address, block.bytes, block.requested, block.is_free, segment->first});
  };
  for (const auto& [address, block] : blocks_) add(*block);
  for (const auto& [stream, pool] : pools_) {
    for (const Block* block : pool.small) add(*block);
    for (const Block* block : pool.large) add(*block);
  }
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
  for (const auto& [address, block] : blocks_) live.push_back(block->requested);
  std::sort(live.rbegin(), live.rend());
  std::string largest;
  for (size_t i = 0; i < std::min(live.size(), kLargestListed); ++i)
    largest += concat(i == 0 ? "" : ", ", mebibytes(live[i]));
  uint64_t largest_free = 0;
  for (const auto& [stream, pool] : pools_)
    if (!pool.large.empty())
      largest_free = std::max<uint64_t>(largest_free, (*pool.large.rbegin())->bytes);
  throw OutOfMemoryError(
      concat("cuda:", device_, ": out of memory: ", mebibytes(bytes), " asked for, but ", reason,
             " (allocated ", mebibytes(stats_.allocated), ", reserved ", mebibytes(stats_.reserved),
             ", limit ", stats_.limit == 0 ? std::string("none") : mebibytes(stats_.limit),
             ", largest cached free block ", mebibytes(largest_free), "; the device has ",
             mebibytes(free_bytes), " free of ", mebibytes(total_bytes),
             "). Largest live blocks: ", largest.empty() ? std::string("none") : largest,
             ". Free tensors you no longer need, use a smaller batch or a narrower dtype, or call "
             "empty_cache."));
}

CachingAllocator& caching_allocator(int device) {
  // Never destroyed: tensors in static storage may be freed after this would be.
  static auto* allocators = [] {
    auto* all = new std::vector<std::unique_ptr<CachingAllocator>>;
    for (int i = 0; i < device_count(); ++i) all->push_back(std::make_unique<CachingAllocator>(i));
    return all;
  }();
  check(device >= 0 && static_cast<size_t>(device) < allocators->size(),
        "cuda: there is no device ", device);
  return *(*allocators)[static_cast<size_t>(device)];
}

}  // namespace tensora::cuda

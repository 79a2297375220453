#include "tensora/backend/cuda/memory/allocator.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "tensora/backend/cuda/memory/red_zones.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/fork.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/wait.h"
#include "tensora/base/check.h"

// Note [Stream-ordered free]
// cudaMalloc and cudaFree wait for the device, which would stall every op. So memory is allocated
// from the device in large segments and split into blocks. A tensor that is destroyed on the host
// may still be read by kernels queued on its stream; but the block's next use is queued on the same
// stream after those kernels, so the block can be reused immediately. Free blocks are therefore
// kept per stream, and a block that other streams used too (record_stream) is not reused until
// events on those streams have completed.
//
// Note [Segments and blocks]
// Requests up to 1 MiB share segments of 2 MiB, others up to 10 MiB segments of 20 MiB, larger ones
// get a segment of their own, rounded up to 2 MiB. The smallest free block that fits is split, and
// the rest stays free; adjacent free blocks are merged again. The two kinds are kept apart, so that
// a small tensor with a long life does not pin a large segment.
//
// Note [Bins]
// A network allocates the same few small sizes again and again. Splitting and merging every time
// would cost more than the rest of our share of a launch, so a small block that is freed keeps its
// size and goes into the bin of that size, from which the next request of the size takes it: two
// pointer moves. Blocks in bins are merged only when nothing else fits, before more memory is
// requested from the device; each is merged at most once per free, as it would be without bins.

namespace tensora::cuda {
namespace {

constexpr size_t kGranule = 512;
constexpr size_t kSmallRequest = size_t{1} << 20;
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kMiddleRequest = size_t{10} << 20;
constexpr size_t kMiddleSegment = size_t{20} << 20;
constexpr size_t kSegmentStep = size_t{2} << 20;
constexpr size_t kLargestRequest = size_t{1} << 46;  // beyond any device
static_assert(kSmallRequest / kGranule == BlockPool::kBins);

size_t rounded(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

size_t segment_bytes(size_t bytes) {
  if (bytes <= kSmallRequest) return kSmallSegment;
  if (bytes <= kMiddleRequest) return kMiddleSegment;
  return rounded(bytes, kSegmentStep);
}

size_t bin_of(size_t bytes) { return bytes / kGranule - 1; }

}  // namespace

void* CachingAllocator::allocate(size_t requested) {
  if (requested == 0) return nullptr;
  std::lock_guard lock(mutex_);
  if (requested > kLargestRequest) throw_out_of_memory(requested, "no device is that large");
  const bool guarded = has_red_zones() && !current_capture();
  const size_t bytes = rounded(requested, kGranule) + (guarded ? 2 * kRedZone : 0);
  BlockPool& pool = current_pool();
  ++stats_.allocations;
  Block* block = take_binned(pool, bytes);
  if (!block) {
    block = find_or_make(pool, bytes, requested);
    split(*block, bytes);
  }
  block->state = Block::State::live;
  block->requested = requested;
  block->guarded = guarded;
  count_live(*block, true);
  if (!guarded) [[likely]]
    return block->address;
  fill_red_zones(*block);
  return block->address + kRedZone;
}

// A block by the address its caller has.
Block* CachingAllocator::find(const void* address) const {
  if (Block* const block = blocks_.find(address)) [[likely]]
    return block;
  Block* const block = blocks_.find(static_cast<const char*>(address) - kRedZone);
  return block && block->guarded ? block : nullptr;
}

void CachingAllocator::free(void* address, size_t) noexcept {
  if (!address || is_forked()) return;
  std::lock_guard lock(mutex_);
  Block* const block = find(address);
  if (!block || block->state != Block::State::live) return;
  if (block->guarded && !current_capture() && wait_for_device() == cudaSuccess) [[unlikely]]
    look_at_red_zones(*block);
  count_live(*block, false);
  block->requested = 0;
  if (block->other_users.empty()) [[likely]]
    return make_free(block);
  block->state = Block::State::waiting;
  // An event recorded now might become part of the graph.
  if (Capture* capture = current_capture())
    capture->freed_while_used.push_back(address);
  else
    start_waiting(*block);
}

void CachingAllocator::count_live(const Block& block, bool born) {
  ClassCount& in_class = classes_[static_cast<size_t>(std::bit_width(block.requested - 1))];
  if (born) {
    ++in_class.allocations;
    ++in_class.live_blocks;
    in_class.live_bytes += block.bytes;
    requested_ += block.requested;
    stats_.allocated += block.bytes;
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  } else {
    --in_class.live_blocks;
    in_class.live_bytes -= block.bytes;
    requested_ -= block.requested;
    stats_.allocated -= block.bytes;
  }
}

// ---- finding a block ---------------------------------------------------------------------------

BlockPool& CachingAllocator::current_pool() {
  const Capture* const capture = current_capture();
  return pool_of(current_stream(device_),
                 capture && capture->device == device_ ? capture->graph : 0);
}

BlockPool& CachingAllocator::pool_of(cudaStream_t stream, uint64_t graph) {
  const auto fits = [&](const BlockPool& pool) {
    return pool.stream == stream && pool.graph == graph;
  };
  if (last_pool_ && fits(*last_pool_)) [[likely]]
    return *last_pool_;
  for (const auto& pool : pools_)
    if (fits(*pool)) return *(last_pool_ = pool.get());
  pools_.push_back(std::make_unique<BlockPool>());
  last_pool_ = pools_.back().get();
  last_pool_->stream = stream;
  last_pool_->graph = graph;
  return *last_pool_;
}

Block* CachingAllocator::take_binned(BlockPool& pool, size_t bytes) {
  if (bytes > kSmallRequest) return nullptr;
  const size_t bin = bin_of(bytes);
  Block* const block = pool.bins[bin];
  if (!block) return nullptr;
  pool.bins[bin] = block->next_binned;
  if (!block->next_binned) pool.used_bins[bin / 64] &= ~(uint64_t{1} << bin % 64);
  ++stats_.cache_hits;
  return block;
}

Block* CachingAllocator::take_listed(BlockPool& pool, size_t bytes, bool small) {
  BlockPool::List& list = pool.list(small);
  Block key;
  key.bytes = bytes;
  const auto found = list.lower_bound(&key);
  if (found == list.end()) return nullptr;
  Block* const block = *found;
  list.erase(found);
  ++stats_.cache_hits;
  return block;
}

// From the cheapest source to the most expensive: free blocks, blocks that other streams have
// finished with, merged bins, the device.
Block* CachingAllocator::find_or_make(BlockPool& pool, size_t bytes, size_t requested) {
  const bool small = bytes <= kSmallRequest;
  if (Block* block = take_listed(pool, bytes, small)) return block;
  if (!pending_.empty()) {
    collect_reached(false);
    if (Block* block = take_binned(pool, bytes)) return block;
    if (Block* block = take_listed(pool, bytes, small)) return block;
  }
  if (small) {
    join(pool);
    if (Block* block = take_listed(pool, bytes, small)) return block;
  }
  return new_segment(pool, bytes, requested);
}

Block* CachingAllocator::new_segment(BlockPool& pool, size_t bytes, size_t requested) {
  const size_t segment = segment_bytes(bytes);
  const auto excess = [&] {
    const uint64_t after = stats_.reserved + segment;
    return stats_.limit != 0 && after > stats_.limit ? after - stats_.limit : 0;
  };
  if (excess() > 0) {
    join_all();
    release_cached(excess());
    if (excess() > 0) {
      collect_reached(true);
      release_cached(SIZE_MAX);
    }
    if (excess() > 0) throw_out_of_memory(requested, "the configured limit is reached");
  }
  void* address = from_device(segment);
  // First only as much as is missing, least recently used first; then everything.
  if (!address) {
    join_all();
    if (release_cached(missing_on_device(segment)) > 0) address = from_device(segment);
  }
  if (!address) {
    collect_reached(true);
    join_all();
    release_cached(SIZE_MAX);
    address = from_device(segment);
  }
  if (!address) throw_out_of_memory(requested, "the device's memory is full");
  auto block = std::make_unique<Block>();
  block->address = static_cast<char*>(address);
  block->bytes = segment;
  block->pool = &pool;
  block->small = bytes <= kSmallRequest;
  segments_.emplace(block->address, segment);
  blocks_.insert(block.get());
  stats_.reserved += segment;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return block.release();
}

size_t CachingAllocator::missing_on_device(size_t bytes) const {
  const DeviceGuard guard(device_);
  size_t available = 0, total = 0;
  cudaMemGetInfo(&available, &total);
  return available < bytes ? bytes - available : bytes;  // else there is enough, but not contiguous
}

void* CachingAllocator::from_device(size_t bytes) {
  const DeviceGuard guard(device_);
  const OutsideCapture outside;
  count_wait();
  void* address = nullptr;
  const cudaError_t status = cudaMalloc(&address, bytes);
  if (status == cudaSuccess) return address;
  if (status != cudaErrorMemoryAllocation) fail_cuda(status, "cudaMalloc");
  cudaGetLastError();
  return nullptr;
}

// Splits `bytes` off the front; the rest becomes a free block, unless it is too small to be of use.
void CachingAllocator::split(Block& block, size_t bytes) {
  const size_t rest = block.bytes - bytes;
  if (rest < (block.small ? kGranule : kSmallRequest)) return;
  auto* remainder = new Block;
  remainder->address = block.address + bytes;
  remainder->bytes = rest;
  remainder->pool = block.pool;
  remainder->small = block.small;
  remainder->before = &block;
  remainder->after = block.after;
  remainder->freed_at = block.freed_at;
  if (block.after) block.after->before = remainder;
  block.after = remainder;
  block.bytes = bytes;
  remainder->state = Block::State::listed;
  blocks_.insert(remainder);
  remainder->pool->list(remainder->small).insert(remainder);
}

// ---- freeing and merging -----------------------------------------------------------------------

void CachingAllocator::make_free(Block* block) {
  block->freed_at = stats_.allocations;
  if (!block->small || block->bytes > kSmallRequest) return list_block(block);
  BlockPool& pool = *block->pool;
  const size_t bin = bin_of(block->bytes);
  block->state = Block::State::binned;
  block->next_binned = pool.bins[bin];
  pool.bins[bin] = block;
  pool.used_bins[bin / 64] |= uint64_t{1} << bin % 64;
}

// Merges a block with its listed neighbours and lists the result.
void CachingAllocator::list_block(Block* block) {
  const auto is_listed = [](const Block* neighbour) {
    return neighbour && neighbour->state == Block::State::listed;
  };
  const auto absorb_next = [this](Block* first) {
    Block* const second = first->after;
    first->bytes += second->bytes;
    first->freed_at = std::max(first->freed_at, second->freed_at);
    first->after = second->after;
    if (second->after) second->after->before = first;
    blocks_.erase(second);
    delete second;
  };
  BlockPool::List& list = block->pool->list(block->small);
  if (is_listed(block->after)) {
    list.erase(block->after);
    absorb_next(block);
  }
  if (is_listed(block->before)) {
    block = block->before;
    list.erase(block);
    absorb_next(block);
  }
  block->state = Block::State::listed;
  list.insert(block);
}

// Empties the bins of a pool into its list.
void CachingAllocator::join(BlockPool& pool) {
  for (size_t word = 0; word < pool.used_bins.size(); ++word) {
    while (pool.used_bins[word] != 0) {
      const size_t bin = word * 64 + static_cast<size_t>(std::countr_zero(pool.used_bins[word]));
      Block* block = pool.bins[bin];
      pool.bins[bin] = nullptr;
      pool.used_bins[word] &= pool.used_bins[word] - 1;
      while (block) {
        Block* const next = block->next_binned;
        list_block(block);
        block = next;
      }
    }
  }
}

void CachingAllocator::join_all() {
  for (const auto& pool : pools_) join(*pool);
}

// ---- blocks that several streams use -----------------------------------------------------------

void CachingAllocator::record_stream(void* address, cudaStream_t stream) {
  std::lock_guard lock(mutex_);
  Block* const block = find(address);
  if (!block) return;  // memory that is not ours
  if (stream == block->pool->stream) return;
  auto& users = block->other_users;
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
}

void CachingAllocator::start_waiting(Block& block) {
  const DeviceGuard guard(device_);
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
      wait_for_stream(stream);
      if (event) spare_events_.push_back(event);
      continue;
    }
    pending_.push_back({event, stream, &block});
    ++block.events;
  }
  block.other_users.clear();
  if (block.events == 0) make_free(&block);
}

void CachingAllocator::finish_frees(const std::vector<void*>& addresses) {
  std::lock_guard lock(mutex_);
  for (void* address : addresses) start_waiting(*find(address));
}

void CachingAllocator::collect_reached(bool wait) {
  const OutsideCapture outside;
  std::vector<cudaStream_t> busy;  // events of a stream are reached in the order of recording
  size_t kept = 0;
  for (const Pending& entry : pending_) {
    const bool behind = std::find(busy.begin(), busy.end(), entry.stream) != busy.end();
    const cudaError_t status = wait     ? wait_for_event(entry.event)
                               : behind ? cudaErrorNotReady
                                        : cudaEventQuery(entry.event);
    if (status == cudaErrorNotReady) {
      if (!behind) busy.push_back(entry.stream);
      pending_[kept++] = entry;
      continue;
    }
    spare_events_.push_back(entry.event);
    if (--entry.block->events == 0) make_free(entry.block);
  }
  pending_.resize(kept);
}

// ---- giving memory back ------------------------------------------------------------------------

// Returns entirely free segments to the device until `wanted` bytes are free, least recently used
// first. Returns how many bytes it freed.
size_t CachingAllocator::release_cached(size_t wanted) {
  std::vector<Block*> whole;
  for (const auto& pool : pools_) {
    if (pool->graph != 0) continue;  // a replay writes there
    for (const bool small : {true, false})
      for (Block* block : pool->list(small))
        if (!block->before && !block->after) whole.push_back(block);
  }
  std::sort(whole.begin(), whole.end(),
            [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; });
  size_t released = 0;
  for (Block* block : whole) {
    if (released >= wanted) break;
    released += block->bytes;
    release_segment(block);
  }
  if (released > 0) ++collections_;
  return released;
}

// cudaFree waits for the device, so nothing that is still queued can touch the segment.
void CachingAllocator::release_segment(Block* block) {
  const DeviceGuard guard(device_);
  const OutsideCapture outside;
  count_wait();
  cudaFree(block->address);
  stats_.reserved -= block->bytes;
  segments_.erase(block->address);
  block->pool->list(block->small).erase(block);
  blocks_.erase(block);
  delete block;
}

void CachingAllocator::empty_cache() {
  std::lock_guard lock(mutex_);
  refuse_capture("empty_cache");
  collect_reached(true);
  join_all();
  release_cached(SIZE_MAX);
}

void CachingAllocator::set_limit(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  stats_.limit = bytes;
  if (bytes == 0 || stats_.reserved <= bytes) return;
  join_all();
  release_cached(stats_.reserved - bytes);
}

void CachingAllocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

// ---- the memory of graphs ----------------------------------------------------------------------

std::vector<cudaStream_t> CachingAllocator::streams_of_graph(uint64_t graph) const {
  std::lock_guard lock(mutex_);
  std::vector<cudaStream_t> streams;
  for (const auto& pool : pools_)
    if (pool->graph == graph) streams.push_back(pool->stream);
  return streams;
}

void CachingAllocator::release_graph(uint64_t graph) {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < pools_.size(); ++i) {
    if (pools_[i]->graph != graph) continue;
    const std::unique_ptr<BlockPool> old = std::move(pools_[i]);
    pools_.erase(pools_.begin() + static_cast<ptrdiff_t>(i--));
    last_pool_ = nullptr;
    BlockPool& heir = pool_of(old->stream, 0);
    join(*old);
    blocks_.each([&](Block& block) {
      if (block.pool == old.get()) block.pool = &heir;
    });
    heir.small.merge(old->small);
    heir.large.merge(old->large);
  }
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

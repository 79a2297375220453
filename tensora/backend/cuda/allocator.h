#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "tensora/core/backend.h"

namespace tensora::cuda {

/// One stretch of a segment: free, or handed out.
struct Block {
  char* address = nullptr;
  size_t bytes = 0;
  size_t requested = 0;           // by the caller; 0 while free
  cudaStream_t stream = nullptr;  // whose work may use it without waiting
  Block* before = nullptr;        // neighbours in the segment
  Block* after = nullptr;
  bool is_free = false;
  bool small = false;
  int waiting = 0;                        // events of other streams still to be reached
  std::vector<cudaStream_t> other_users;  // see record_stream
};

/// What the allocator holds of the device, for tools.
struct BlockInfo {
  const void* address;
  size_t bytes;
  size_t requested;
  bool is_free;
  const void* segment;
};

/// The caching allocator of one device. See Note [Stream-ordered free] in allocator.cpp.
class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(int device) : device_(device) {}

  void* allocate(size_t bytes) override;
  void free(void* address, size_t bytes) noexcept override;
  MemoryStats stats() const override;
  void empty_cache() override;
  void set_limit(uint64_t bytes) override;
  void reset_peaks() override;

  /// Says that work queued on `stream` uses the block: after its free it rests until that is done.
  void record_stream(void* address, cudaStream_t stream);
  /// Every block, in the order of addresses.
  std::vector<BlockInfo> snapshot() const;

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
    }
  };
  using FreeBlocks = std::set<Block*, BySize>;
  struct Pool {
    FreeBlocks small, large;
  };
  struct Pending {
    cudaEvent_t event;
    Block* block;
  };

  FreeBlocks& free_blocks(const Block& block) {
    Pool& pool = pools_[block.stream];
    return block.small ? pool.small : pool.large;
  }
  Block* take_cached(size_t bytes, cudaStream_t stream, bool small);
  Block* new_segment(size_t bytes, size_t requested, cudaStream_t stream, bool small);
  void* from_device(size_t bytes);
  void split(Block& block, size_t bytes);
  void make_free(Block* block);
  Block* merged(Block* block);
  void start_waiting(Block& block);
  void collect_reached(bool wait);
  void release_cached();
  [[noreturn]] void throw_out_of_memory(size_t bytes, std::string_view reason) const;

  const int device_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, Block*> blocks_;  // those handed out
  std::map<char*, size_t> segments_;
  std::map<cudaStream_t, Pool> pools_;
  std::vector<Pending> pending_;
  std::vector<cudaEvent_t> spare_events_;
  MemoryStats stats_;
};

CachingAllocator& caching_allocator(int device);

}  // namespace tensora::cuda

#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/backend/cuda/memory/address_table.h"
#include "tensora/backend/cuda/memory/memory.h"
#include "tensora/core/backend.h"

namespace tensora::cuda {

struct BlockPool;

constexpr size_t kRedZone = 512;  // bytes; blocks stay aligned. See Note [Red zones]

/// A part of a segment.
struct Block {
  enum class State : unsigned char {
    live,
    waiting,  // freed, but other streams still use it
    binned,   // free, kept at its size; see Note [Bins]
    listed,   // free, merged with its free neighbours
  };

  char* address = nullptr;
  size_t bytes = 0;
  size_t requested = 0;  // by the caller; 0 unless live
  BlockPool* pool = nullptr;
  Block* before = nullptr;  // neighbours in the segment
  Block* after = nullptr;
  Block* next_binned = nullptr;
  uint64_t freed_at = 0;  // by the count of allocations
  State state = State::live;
  bool small = false;
  bool guarded = false;                   // the caller's memory begins after a red zone
  int events = 0;                         // of other streams, not yet completed
  std::vector<cudaStream_t> other_users;  // see record_stream

  bool is_free() const { return state >= State::binned; }
};

/// Free blocks that the work of one stream may use without waiting.
struct BlockPool {
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
    }
  };
  using List = std::set<Block*, BySize>;
  static constexpr size_t kBins = 2048;  // one per multiple of the granule up to 1 MiB

  cudaStream_t stream = nullptr;
  uint64_t graph = 0;  // 0: not of a graph
  List small, large;
  std::array<Block*, kBins> bins{};
  std::array<uint64_t, kBins / 64> used_bins{};

  List& list(bool is_small) { return is_small ? small : large; }
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

  /// Work queued on `stream` uses the block: once freed, it is not reused until that work is done.
  void record_stream(void* address, cudaStream_t stream);
  /// Throws if a kernel wrote outside its memory; see Note [Red zones].
  void check_red_zones();
  MemoryReport report() const;
  std::vector<BlockInfo> snapshot() const;

  /// A graph was destroyed, or its capture failed: its memory goes to its streams, which the caller
  /// has made wait for the graph's last replay.
  void release_graph(uint64_t graph);
  /// The streams whose blocks a graph holds.
  std::vector<cudaStream_t> streams_of_graph(uint64_t graph) const;
  /// Frees what other streams used and was freed while a graph was recorded.
  void finish_frees(const std::vector<void*>& addresses);

 private:
  static constexpr size_t kClasses = 48;  // of the histogram: up to 2^47 bytes

  struct Pending {
    cudaEvent_t event;
    cudaStream_t stream;
    Block* block;
  };

  Block* find(const void* address) const;
  void fill_red_zones(const Block& block);
  void look_at_red_zones(const Block& block) noexcept;
  BlockPool& current_pool();
  BlockPool& pool_of(cudaStream_t stream, uint64_t graph);
  Block* take_binned(BlockPool& pool, size_t bytes);
  Block* take_listed(BlockPool& pool, size_t bytes, bool small);
  Block* find_or_make(BlockPool& pool, size_t bytes, size_t requested);
  Block* new_segment(BlockPool& pool, size_t bytes, size_t requested);
  size_t missing_on_device(size_t bytes) const;
  void* from_device(size_t bytes);
  void split(Block& block, size_t bytes);
  void make_free(Block* block);
  void list_block(Block* block);
  void join(BlockPool& pool);
  void join_all();
  void start_waiting(Block& block);
  void collect_reached(bool wait);
  size_t release_cached(size_t wanted);
  void release_segment(Block* block);
  void count_live(const Block& block, bool born);
  uint64_t largest_free() const;
  [[noreturn]] void throw_out_of_memory(size_t bytes, std::string_view reason) const;

  const int device_;
  mutable std::mutex mutex_;
  AddressTable<Block> blocks_;
  std::map<char*, size_t> segments_;
  std::vector<std::unique_ptr<BlockPool>> pools_;
  BlockPool* last_pool_ = nullptr;
  std::vector<Pending> pending_;
  std::vector<cudaEvent_t> spare_events_;
  MemoryStats stats_;
  uint64_t requested_ = 0;
  uint64_t collections_ = 0;
  std::string damage_;  // found in a red zone and not yet thrown
  struct ClassCount {
    uint64_t allocations = 0, live_blocks = 0, live_bytes = 0;
  };
  std::array<ClassCount, kClasses> classes_{};
};

CachingAllocator& caching_allocator(int device);

}  // namespace tensora::cuda

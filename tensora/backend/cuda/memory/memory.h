#pragma once

// Reports of the CUDA allocator beyond MemoryStats. No CUDA header is needed.

#include <cstdint>
#include <vector>

#include "tensora/backend/cuda/runtime/stream.h"
#include "tensora/core/backend.h"

namespace tensora {
class Tensor;
}

namespace tensora::cuda {

/// Blocks of more than half of `bytes` and at most `bytes`.
struct SizeClass {
  uint64_t bytes = 0;        // a power of two
  uint64_t allocations = 0;  // so far
  uint64_t live_blocks = 0;
  uint64_t live_bytes = 0;
  uint64_t free_blocks = 0;
  uint64_t free_bytes = 0;
};

struct MemoryReport {
  MemoryStats totals;
  uint64_t requested = 0;    // by the callers, in live blocks; the rest of `allocated` is rounding
  uint64_t in_graphs = 0;    // of `reserved`, what graphs keep
  uint64_t waiting = 0;      // in blocks that were freed while another stream still used them
  uint64_t segments = 0;     // allocated from the device
  uint64_t collections = 0;  // how often cached segments were released to make room
  /// The share of the cached free memory that lies outside the largest free block: 0 if it is
  /// contiguous.
  double fragmentation = 0;
  std::vector<SizeClass> histogram;  // of the classes that were ever used, ascending
};

/// What the allocator holds of the device.
struct BlockInfo {
  const void* address;
  uint64_t bytes;
  uint64_t requested;  // 0 unless live
  const void* segment;
  const void* stream;  // the cudaStream_t to which the block belongs
  bool is_free;
  bool in_graph;
};

MemoryReport memory_report(Device device = DeviceType::cuda);
/// Every block, in the order of addresses.
std::vector<BlockInfo> memory_snapshot(Device device = DeviceType::cuda);

/// Records that work queued so far on `stream` uses the tensor's memory, which belongs to another
/// stream: when the tensor is destroyed, the memory is not reused until that work is done. Call it
/// after queueing the work.
void record_stream(const Tensor& tensor, const Stream& stream);

}  // namespace tensora::cuda

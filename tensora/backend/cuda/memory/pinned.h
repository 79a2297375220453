#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "tensora/backend/cuda/runtime/order.h"

namespace tensora::cuda {

/// Page-locked host memory, which the device reads and writes directly and asynchronously. Blocks
/// are powers of two and are kept for reuse.
class PinnedPool {
 public:
  void* allocate(size_t bytes);
  /// The block may still be in use by work queued on `stream`: it is not reused until that is done.
  void free_after(void* block, cudaStream_t stream);
  /// Nothing queued uses the block.
  void free_now(void* block);
  /// The block of a tensor: work announced by note_use may still use it.
  void free(void* block);
  void note_use(void* block, DeviceStream user);
  bool holds(const void* block) const;
  size_t reserved() const;

 private:
  struct Resting {
    cudaEvent_t event;
    void* block;
  };
  void collect_reached();

  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;
  std::map<const void*, size_t> sizes_;
  std::map<void*, DeviceStream> users_;  // the last; it was ordered behind the others
  std::deque<Resting> resting_;
  std::vector<cudaEvent_t> spare_events_;
  size_t reserved_ = 0;
  size_t resting_bytes_ = 0;
};

PinnedPool& pinned_pool();
/// Offers the pool to code that does not know CUDA: see Note [Pinned memory] in core/pinned.h.
void register_pinned_memory();

/// Copies to and from pageable host memory through pinned staging blocks. A copy to the device
/// returns when the source may be changed; a copy to the host when it is complete.
void copy_to_device(int device, void* to, const void* from, size_t bytes);
void copy_to_host(int device, void* to, const void* from, size_t bytes);

}  // namespace tensora::cuda

#pragma once

#include "tensora/backend/cuda/memory/allocator.h"

namespace tensora::cuda {

/// Device memory for the kernels of one op. It may be freed while they are still queued: see
/// Note [Stream-ordered free].
class Scratch {
 public:
  Scratch(int device, size_t bytes)
      : allocator_(caching_allocator(device)), data_(allocator_.allocate(bytes)), bytes_(bytes) {}
  ~Scratch() { allocator_.free(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  char* data() const { return static_cast<char*>(data_); }

 private:
  CachingAllocator& allocator_;
  void* data_;
  size_t bytes_;
};

}  // namespace tensora::cuda

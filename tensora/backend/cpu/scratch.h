#pragma once

#include "tensora/backend/cpu/memory.h"

namespace tensora::cpu {

/// Memory for one kernel, uninitialised; freed blocks are kept by the allocator.
template <class T>
class HostScratch {
 public:
  explicit HostScratch(int64_t count)
      : bytes_(static_cast<size_t>(count) * sizeof(T)),
        data_(static_cast<T*>(host_allocator().allocate(bytes_))) {}
  ~HostScratch() { host_allocator().free(data_, bytes_); }
  HostScratch(const HostScratch&) = delete;
  HostScratch& operator=(const HostScratch&) = delete;

  T* data() const { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

}  // namespace tensora::cpu

#pragma once

// Internal header

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tensora::jit {

/// Uninitialized memory that begins at a cache line: no access of a vector of 64 bytes touches two.
template <class T>
class AlignedMemory {
 public:
  AlignedMemory() = default;
  explicit AlignedMemory(size_t count)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(count * sizeof(T) + kLine)),
        data_(reinterpret_cast<T*>(memory_.get() + gap(memory_.get()))) {}

  T* get() const { return data_; }

 private:
  static constexpr size_t kLine = 64;
  static size_t gap(const std::byte* memory) {
    return (kLine - reinterpret_cast<uintptr_t>(memory) % kLine) % kLine;
  }

  std::unique_ptr<std::byte[]> memory_;
  T* data_ = nullptr;
};

}  // namespace tensora::jit

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tensora::llm::jinja {

/// The steps that one run of a template may take. It is the budget of the thread as long as it
/// lives. Texts charge it when they are made, lists and dicts when they allocate, and filters,
/// tests and methods when they are called (see Native). What is freed is not given back, so the
/// budget bounds the memory that values hold at any time as well as the time of a run.
class Budget {
 public:
  explicit Budget(int64_t steps);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

 private:
  friend void charge(int64_t steps);
  static thread_local Budget* current_;

  int64_t limit_, left_;
  Budget* before_;
};

/// Throws once the steps of the thread's budget are used up. Without a budget, all is free.
void charge(int64_t steps);
/// Charges for bytes that are read or written.
inline void charge_bytes(size_t bytes) { charge(static_cast<int64_t>(bytes / 16) + 1); }

/// Charges for what it allocates, a step for every 48 bytes.
template <class T>
struct ChargedAllocator {
  using value_type = T;
  ChargedAllocator() = default;
  template <class U>
  ChargedAllocator(const ChargedAllocator<U>&) {}  // NOLINT: allocators convert

  T* allocate(size_t count) {
    charge(static_cast<int64_t>(count * sizeof(T) / 48) + 1);
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* data, size_t count) { std::allocator<T>().deallocate(data, count); }
  bool operator==(const ChargedAllocator&) const { return true; }
};

}  // namespace tensora::llm::jinja

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tensora/base/atomic.h"

namespace tensora {

/// Base of reference-counted objects. `T` must provide `static void destroy(T*)`.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void add_ref() const { refs_.add_relaxed(1); }
  /// True when this was the last reference.
  [[nodiscard]] bool drop_ref() const {
    // A sole owner needs no atomic read-modify-write: nobody else can add a reference meanwhile.
    if (refs_.load_acquire() == 1) return true;
    return refs_.subtract(1) == 1;
  }
  uint32_t use_count() const { return refs_.load_acquire(); }

 private:
  mutable Atomic<uint32_t> refs_{1};
};

/// Owning pointer to a RefCounted object. A new object starts with one reference: adopt it.
template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  IntrusivePtr(std::nullptr_t) {}
  IntrusivePtr(const IntrusivePtr& other) : pointer_(other.pointer_) {
    if (pointer_) pointer_->add_ref();
  }
  IntrusivePtr(IntrusivePtr&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  template <class U>
  IntrusivePtr(IntrusivePtr<U>&& other) noexcept : pointer_(other.release()) {}
  IntrusivePtr& operator=(const IntrusivePtr& other) {
    IntrusivePtr(other).swap(*this);
    return *this;
  }
  IntrusivePtr& operator=(IntrusivePtr&& other) noexcept {
    IntrusivePtr(std::move(other)).swap(*this);
    return *this;
  }
  ~IntrusivePtr() { reset(); }

  static IntrusivePtr adopt(T* fresh) {
    IntrusivePtr result;
    result.pointer_ = fresh;
    return result;
  }
  static IntrusivePtr share(T* pointer) {
    if (pointer) pointer->add_ref();
    return adopt(pointer);
  }

  void reset() {
    if (T* old = std::exchange(pointer_, nullptr); old && old->drop_ref()) T::destroy(old);
  }
  T* release() { return std::exchange(pointer_, nullptr); }
  void swap(IntrusivePtr& other) noexcept { std::swap(pointer_, other.pointer_); }

  T* get() const { return pointer_; }
  T* operator->() const { return pointer_; }
  T& operator*() const { return *pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }
  bool operator==(const IntrusivePtr& other) const = default;

 private:
  T* pointer_ = nullptr;
};

}  // namespace tensora

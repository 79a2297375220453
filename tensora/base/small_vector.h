#pragma once

#include <cstddef>
#include <initializer_list>
#include <new>
#include <utility>

namespace tensora {

/// A vector whose first `N` elements live inside it: argument and gradient lists almost never
/// touch the heap.
template <class T, std::size_t N>
class SmallVector {
 public:
  SmallVector() = default;
  explicit SmallVector(std::size_t count) { resize(count); }
  SmallVector(std::initializer_list<T> items) { append_range(items.begin(), items.end()); }
  SmallVector(const SmallVector& other) { append_range(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) {
      clear();
      append_range(other.begin(), other.end());
    }
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      free_all();
      take(other);
    }
    return *this;
  }
  ~SmallVector() { free_all(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }

  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) grow(size_ + 1);
    return *new (data_ + size_++) T(std::forward<Args>(args)...);
  }
  void push_back(T value) { emplace_back(std::move(value)); }
  void pop_back() { data_[--size_].~T(); }
  void clear() {
    while (size_ != 0) pop_back();
  }
  void reserve(std::size_t count) {
    if (count > capacity_) grow(count);
  }
  void resize(std::size_t count) {
    reserve(count);
    while (size_ > count) pop_back();
    while (size_ < count) emplace_back();
  }
  template <class It>
  void append_range(It first, It last) {
    for (; first != last; ++first) emplace_back(*first);
  }

 private:
  T* inline_data() { return reinterpret_cast<T*>(inline_); }
  bool is_inline() { return data_ == inline_data(); }

  void grow(std::size_t needed) {
    const std::size_t capacity = needed > 2 * capacity_ ? needed : 2 * capacity_;
    T* fresh = static_cast<T*>(::operator new(capacity * sizeof(T), std::align_val_t{alignof(T)}));
    for (std::size_t i = 0; i < size_; ++i) {
      new (fresh + i) T(std::move(data_[i]));
      data_[i].~T();
    }
    release_heap();
    data_ = fresh;
    capacity_ = capacity;
  }
  void take(SmallVector& other) {
    if (!other.is_inline()) {
      data_ = std::exchange(other.data_, other.inline_data());
      size_ = std::exchange(other.size_, 0);
      capacity_ = std::exchange(other.capacity_, N);
      return;
    }
    for (T& item : other) emplace_back(std::move(item));
    other.clear();
  }
  void release_heap() {
    if (!is_inline()) ::operator delete(data_, std::align_val_t{alignof(T)});
  }
  void free_all() {
    clear();
    release_heap();
    data_ = inline_data();
    capacity_ = N;
  }

  T* data_ = inline_data();
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
  alignas(T) std::byte inline_[N * sizeof(T)];
};

}  // namespace tensora

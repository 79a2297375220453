#pragma once

#include "tensora/core/shape.h"

namespace tensora {

/// The elements of a CPU tensor of N dims, by plain address arithmetic and without checks:
/// `auto a = x.accessor<float, 2>(); a[i][j] = 1;`. Valid as long as the tensor lives.
template <class T, int N>
class TensorAccessor {
 public:
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}

  decltype(auto) operator[](int64_t i) const {
    if constexpr (N == 1)
      return static_cast<T&>(data_[i * strides_[0]]);
    else
      return TensorAccessor<T, N - 1>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
  }
  T* data() const { return data_; }
  int64_t size(int dim) const { return sizes_[dim]; }
  int64_t stride(int dim) const { return strides_[dim]; }
  std::span<const int64_t> sizes() const { return {sizes_, N}; }
  std::span<const int64_t> strides() const { return {strides_, N}; }

 private:
  T* data_;
  const int64_t* sizes_;
  const int64_t* strides_;
};

/// A tensor without dims has one element.
template <class T>
class TensorAccessor<T, 0> {
 public:
  TensorAccessor(T* data, const int64_t*, const int64_t*) : data_(data) {}
  operator T&() const { return *data_; }
  T& operator*() const { return *data_; }
  T& operator=(const T& value) const { return *data_ = value; }
  T* data() const { return data_; }

 private:
  T* data_;
};

}  // namespace tensora

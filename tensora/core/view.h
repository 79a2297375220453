#pragma once

#include "tensora/core/device.h"
#include "tensora/core/dtype.h"
#include "tensora/core/shape.h"

namespace tensora {

/// What a kernel sees of a tensor: an address and how to walk from it. Owns nothing.
struct View {
  void* data = nullptr;
  Shape sizes;
  Strides strides;  // in elements
  int64_t numel = 1;
  DType dtype = DType::float32;
  Device device;
  bool contiguous = true;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int dim() const { return sizes.size(); }
  size_t bytes() const { return static_cast<size_t>(numel) * element_size(dtype); }
  /// Call after `sizes` or `strides` changed.
  void update() {
    numel = sizes.numel();
    contiguous = is_contiguous(sizes, strides);
  }
};

}  // namespace tensora

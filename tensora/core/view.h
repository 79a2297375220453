#pragma once

#include "tensora/core/device.h"
#include "tensora/core/dtype.h"
#include "tensora/core/shape.h"

namespace tensora {

/// What a kernel sees of a tensor: an address, sizes, strides and a dtype. Owns nothing.
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
  size_t bytes() const { return static_cast<size_t>(bytes_of(dtype, numel)); }
  /// Call after `sizes` or `strides` changed.
  void update() {
    numel = sizes.numel();
    contiguous = is_contiguous(sizes, strides);
  }
};

/// A complex array as the real one of its parts, with a last dim of 2.
inline View parts_as_reals(View view) {
  view.dtype = real_dtype(view.dtype);
  for (int64_t& stride : view.strides) stride *= 2;
  view.sizes.push_back(2);
  view.strides.push_back(1);
  view.update();
  return view;
}

/// A quantized array as bytes: enough to move whole blocks.
inline View blocks_as_bytes(View view) {
  const DTypeInfo& info = dtype_info(view.dtype);
  const int last = view.dim() - 1;
  for (int d = 0; d < last; ++d)
    view.strides[d] = view.strides[d] / info.block_numbers * info.block_bytes;
  view.sizes[last] = view.sizes[last] / info.block_numbers * info.block_bytes;
  view.dtype = DType::uint8;
  view.update();
  return view;
}

}  // namespace tensora

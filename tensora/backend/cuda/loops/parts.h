#pragma once

#include "tensora/core/view.h"

namespace tensora::cuda {

/// The part of `view` from `start` by `step` along one dim, `count` long.
inline View part_of(View view, int dim, int64_t start, int64_t step, int64_t count) {
  const auto bytes = static_cast<int64_t>(element_size(view.dtype));
  if (count > 0) view.data = view.as<char>() + start * view.strides[dim] * bytes;
  view.sizes[dim] = count;
  view.strides[dim] *= step;
  view.update();
  return view;
}

/// A view of the shape of `like` that holds no elements: the distance of an address in it from its
/// `data` is the position along `dim`. Traversed together with others, it tells a kernel its
/// position.
inline View positions_along(const View& like, int dim) {
  static char origin;
  View positions = like;
  positions.data = &origin;
  positions.dtype = DType::uint8;
  positions.strides = Strides::filled(like.dim(), 0);
  positions.strides[dim] = 1;
  positions.update();
  return positions;
}

/// The same with the number of the element in row-major order.
inline View numbers_of(const View& like) {
  View numbers = positions_along(like, 0);
  numbers.strides = contiguous_strides(like.sizes);
  numbers.update();
  return numbers;
}

/// From a view's first element to one past its last.
inline int64_t extent_bytes(const View& view) {
  int64_t reach = 1;
  for (int d = 0; d < view.dim(); ++d) reach += (view.sizes[d] - 1) * view.strides[d];
  return reach * static_cast<int64_t>(element_size(view.dtype));
}

}  // namespace tensora::cuda

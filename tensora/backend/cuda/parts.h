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

}  // namespace tensora::cuda

#pragma once

// Internal header: batches of matrices, as the kernels of this folder see them.

#include "tensora/core/view.h"

namespace tensora {

/// The dims before the last `inner` ones.
inline Shape batch_sizes(const View& view, int inner = 2) {
  Shape batch = view.sizes;
  batch.resize(view.dim() - inner);
  return batch;
}

/// Where the matrices of a view start whose batch dims broadcast to `batch`, in elements.
class BatchOffsets {
 public:
  BatchOffsets(const View& view, const Shape& batch, int inner = 2) : batch_(batch) {
    Strides strides = view.strides;
    strides.resize(view.dim() - inner);
    strides_ = broadcast_strides(batch_sizes(view, inner), strides, batch);
  }
  int64_t operator[](int64_t index) const {
    int64_t offset = 0;
    for (int d = batch_.size() - 1; d >= 0; --d) {
      offset += index % batch_[d] * strides_[d];
      index /= batch_[d];
    }
    return offset;
  }

 private:
  Shape batch_;
  Strides strides_;
};

/// A view with its last two dims exchanged.
inline View flipped(View view) {
  const int last = view.dim() - 1;
  std::swap(view.sizes[last], view.sizes[last - 1]);
  std::swap(view.strides[last], view.strides[last - 1]);
  view.update();
  return view;
}

/// The strides of a batch of matrices stored column by column.
inline Strides column_major_strides(const Shape& sizes) {
  Shape turned = sizes;
  const int last = sizes.size() - 1;
  std::swap(turned[last], turned[last - 1]);
  Strides strides = contiguous_strides(turned);
  std::swap(strides[last], strides[last - 1]);
  return strides;
}

}  // namespace tensora

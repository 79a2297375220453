#pragma once

#include <optional>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/core/kernel.h"

namespace tensora::cuda {

/// A matrix that the library can read: itself, or a contiguous copy.
class ReadableMatrix {
 public:
  ReadableMatrix(const KernelContext& context, const View& view) : view_(view) {
    if (is_blas_layout(matrix(), view.sizes[0], view.sizes[1])) return;
    copy_.emplace(context.device.index, view.bytes());
    view_.data = copy_->data();
    view_.strides = contiguous_strides(view.sizes);
    view_.update();
    copy_elements(context.op, view, view_);
  }
  MatrixBatch matrix() const { return {view_.data, 0, view_.strides[0], view_.strides[1]}; }
  MatrixBatch turned() const { return {view_.data, 0, view_.strides[1], view_.strides[0]}; }

 private:
  View view_;
  std::optional<Scratch> copy_;
};

}  // namespace tensora::cuda

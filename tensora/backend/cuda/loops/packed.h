#pragma once

#include <optional>
#include <string_view>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/memory/scratch.h"

namespace tensora::cuda {

/// The elements of a view in row-major order: itself if it is contiguous, else a copy that lives as
/// long as this object.
class Packed {
 public:
  Packed(std::string_view op, int device, const View& view) : view_(view) {
    if (view.contiguous) return;
    scratch_.emplace(device, view.bytes());
    view_.data = scratch_->data();
    view_.strides = contiguous_strides(view.sizes);
    view_.update();
    copy_elements(op, view, view_);
  }
  const View& view() const { return view_; }

 private:
  View view_;
  std::optional<Scratch> scratch_;
};

}  // namespace tensora::cuda

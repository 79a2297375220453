#pragma once

#include "tensora/dispatch/op_def.h"
#include "tensora/ops/resample/resize_method.h"

namespace tensora {

/// Resizes the dims behind batch and channels, one to three of them, to `output_size`.
struct ResizeAttrs {
  Shape output_size;
  resample::Method method = resample::Method::nearest;
  bool align_corners = false, antialias = false;
  std::vector<double> scales = {};  // output over input as the user stated it; empty if he did not
};
extern OpDef<ResizeAttrs> resize_op;

/// The transposed map: from gradients of the resized dims to those of an input of shape `sizes`.
struct ResizeBackwardAttrs : ResizeAttrs {
  Shape sizes = {};
  bool channels_last = false;
};
extern OpDef<ResizeBackwardAttrs> resize_backward_op;

namespace resample {
struct BandDim;
/// How each of depth, height and width is resized; missing ones are copied.
std::array<BandDim, 3> band_dims(const Shape& sizes, const ResizeAttrs& attrs);
}  // namespace resample

/// Resizes [N, C, L], [N, C, H, W] or [N, C, D, H, W] to `size`, or by `scale_factor`; one number
/// serves all dims. Modes: nearest, nearest-exact, linear (3-D), bilinear (4-D), trilinear (5-D),
/// bicubic (4-D), area. `align_corners`, for the linear and cubic modes, puts the centres of the
/// corner elements on each other. Coordinates are computed with the scale factor as given, unless
/// `recompute_scale_factor`. `antialias` widens the filter of bilinear and bicubic when shrinking.
Tensor interpolate(const Tensor& input, const std::optional<Shape>& size = {},
                   const std::optional<std::vector<double>>& scale_factor = {},
                   std::string_view mode = "nearest", std::optional<bool> align_corners = {},
                   std::optional<bool> recompute_scale_factor = {}, bool antialias = false);

}  // namespace tensora

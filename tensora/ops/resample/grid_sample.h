#pragma once

#include "tensora/dispatch/op_def.h"
#include "tensora/ops/resample/grid_modes.h"

namespace tensora {

/// input: N C (D) H W; grid: N (d) h w 2 or 3, the last dim in the order x, y, z.
struct GridSampleAttrs {
  resample::GridMode mode = resample::GridMode::bilinear;
  resample::GridPadding padding_mode = resample::GridPadding::zeros;
  bool align_corners = false;
};
extern OpDef<GridSampleAttrs> grid_sample_op;
/// (grad, input, grid): the gradients of input and grid.
extern OpDef<GridSampleAttrs> grid_sample_backward_op;

/// Samples `input` at the places of `grid`: coordinates from -1 to 1 over the input, at the centres
/// of its corner elements if `align_corners`, else at their outer edges. Modes: bilinear (in 3-D
/// trilinear), nearest, bicubic. Beyond the input: zeros, border, reflection.
Tensor grid_sample(const Tensor& input, const Tensor& grid, std::string_view mode = "bilinear",
                   std::string_view padding_mode = "zeros", std::optional<bool> align_corners = {});
/// The grid of an affine map for results of shape `size`, [N, C, H, W] or [N, C, D, H, W]; theta is
/// [N, 2, 3] or [N, 3, 4].
Tensor affine_grid(const Tensor& theta, const Shape& size, std::optional<bool> align_corners = {});

}  // namespace tensora

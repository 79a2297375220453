#pragma once

// Internal header
// What a convolution does to sizes and layouts; shared by the rule and the kernels.

#include "tensora/core/view.h"
#include "tensora/ops/conv/convolution.h"

namespace tensora {

/// Whether C is the innermost of N C L… in memory; as PyTorch decides where sizes of 1 leave it
/// open.
inline bool is_channels_last(const Shape& sizes, const Strides& strides) {
  const int dims = sizes.size();
  if (dims < 3) return false;
  int64_t least = 0;
  const auto in_order = [&](int d) {
    if (sizes[d] == 0 || strides[d] < least) return false;
    least = strides[d] * (sizes[d] > 1 ? sizes[d] : 1);
    return true;
  };
  if (!in_order(1)) return false;
  for (int d = dims - 1; d >= 2; --d)
    if (!in_order(d)) return false;
  return least != strides[1] && strides[0] >= least;
}

inline Strides channels_last_strides(const Shape& sizes) {
  Strides strides = sizes;
  int64_t step = 1;
  const auto place = [&](int d) {
    strides[d] = step;
    step *= sizes[d] > 1 ? sizes[d] : 1;
  };
  place(1);
  for (int d = sizes.size() - 1; d >= 2; --d) place(d);
  place(0);
  return strides;
}

/// One number for every spatial dim.
inline Shape per_dim(const Shape& values, int count) {
  return values.size() == 1 ? Shape::filled(count, values[0]) : values;
}

/// The same convolution with one number per spatial dim in every attribute.
inline ConvolutionAttrs expanded(ConvolutionAttrs attrs, int spatial) {
  for (Shape* values : {&attrs.stride, &attrs.padding, &attrs.dilation, &attrs.output_padding})
    *values = per_dim(*values, spatial);
  return attrs;
}

/// A convolution is a relation between three arrays: `small` holds one number per position of the
/// kernel in `large`. It computes small from large and weight; transposed, and in the gradient of
/// its input, large from small and weight; in the gradient of its weight, weight from the other
/// two. A kernel sees one of these three products.
struct ConvolutionViews {
  View large;   // N C L…
  View small;   // N M O…
  View weight;  // M C/groups K…
  ConvolutionAttrs attrs;
};

enum class ConvolutionProduct { small, large, weight };

}  // namespace tensora

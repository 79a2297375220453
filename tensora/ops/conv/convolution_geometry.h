#pragma once

// Internal header
// What a convolution does to sizes and layouts; shared by the rule and the kernels.

#include "tensora/core/memory_format.h"
#include "tensora/core/view.h"
#include "tensora/ops/conv/convolution.h"

namespace tensora {

/// One number for every spatial dim.
inline Shape per_dim(const Shape& values, int count) {
  return values.size() == 1 ? Shape::filled(count, values[0]) : values;
}

/// The same convolution with one number per spatial dim in every attribute.
inline ConvolutionAttrs expanded(const ConvolutionAttrs& given, int spatial) {
  ConvolutionAttrs attrs = given;
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

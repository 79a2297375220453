#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// How often each number from 0 to the largest occurs in a 1-D tensor of integers that are not
/// negative, at least `minlength` counts; with `weights`, the sum of the weights instead: in their
/// dtype if that is float32, else in float64. Not differentiable.
Tensor bincount(const Tensor& self, const Tensor& weights = {}, int64_t minlength = 0);

/// How many elements fall into each of `bins` equal intervals between `min` and `max`, both
/// included; of all elements' range if both are 0. Other elements, and NaN, are not counted.
Tensor histc(const Tensor& self, int64_t bins = 100, Scalar min = 0, Scalar max = 0);

/// The histogram of all elements, and the edges of its bins, (hist, bin_edges). The edges are
/// given, ascending, or `bins` equal intervals of `range`, by default of the elements. All
/// intervals but the last exclude their upper edge. `weight` has self's shape; `density` divides by
/// the total and by the intervals' widths.
std::tuple<Tensor, Tensor> histogram(const Tensor& self, const Tensor& bins,
                                     const Tensor& weight = {}, bool density = false);
std::tuple<Tensor, Tensor> histogram(const Tensor& self, int64_t bins,
                                     std::optional<std::pair<double, double>> range = {},
                                     const Tensor& weight = {}, bool density = false);

}  // namespace tensora

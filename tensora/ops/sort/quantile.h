#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// The q-th quantiles, 0 <= q <= 1, of each line along `dim`, or of all elements: the number at
/// position q · (n - 1) of the sorted line. Between two elements it is found by `interpolation`:
/// "linear", "lower", "higher", "midpoint" or "nearest". NaN if the line contains one. `q` is a
/// number or a 1-D tensor of self's dtype, whose dim then comes first in the result. float32 and
/// float64 only.
Tensor quantile(const Tensor& self, double q, std::optional<int64_t> dim = {}, bool keepdim = false,
                std::string_view interpolation = "linear");
Tensor quantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim = {},
                bool keepdim = false, std::string_view interpolation = "linear");
/// The same of the elements that are not NaN; NaN if there are none.
Tensor nanquantile(const Tensor& self, double q, std::optional<int64_t> dim = {},
                   bool keepdim = false, std::string_view interpolation = "linear");
Tensor nanquantile(const Tensor& self, const Tensor& q, std::optional<int64_t> dim = {},
                   bool keepdim = false, std::string_view interpolation = "linear");

/// The most frequent element of each line along `dim`, the smallest of several, and the last
/// position where it occurs, (values, indices). NaNs count one by one.
std::tuple<Tensor, Tensor> mode(const Tensor& self, int64_t dim = -1, bool keepdim = false);

}  // namespace tensora

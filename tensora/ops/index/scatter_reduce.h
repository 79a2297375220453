#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// `self` with the values of `src` combined at the places that scatter would write them to, by
/// `reduce`: "sum", "prod", "mean", "amax" or "amin". What is there before takes part unless
/// `include_self` is false. Integer means are rounded down. Values that tie share the gradient of
/// amax and amin evenly.
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                      std::string_view reduce, bool include_self = true);
const Tensor& scatter_reduce_(const Tensor& self, int64_t dim, const Tensor& index,
                              const Tensor& src, std::string_view reduce, bool include_self = true);

/// The same for whole slices of `dim`: slice i of `source` goes to slice index[i]; "prod", "mean",
/// "amax" or "amin".
Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    std::string_view reduce, bool include_self = true);
const Tensor& index_reduce_(const Tensor& self, int64_t dim, const Tensor& index,
                            const Tensor& source, std::string_view reduce,
                            bool include_self = true);

/// `self` with `source` written, or added if `accumulate`, to the positions `index` of the
/// flattened tensor, which may count from the end. Both have as many elements.
Tensor put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate = false);
const Tensor& put_(const Tensor& self, const Tensor& index, const Tensor& source,
                   bool accumulate = false);

}  // namespace tensora

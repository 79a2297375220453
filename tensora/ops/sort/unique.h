#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// The distinct elements of `self`, ascending (whether `sorted` is asked for or not); for each
/// element of `self` its position among them, and for each of them how often it occurs, (output,
/// inverse_indices, counts). What is not asked for is an undefined tensor. With `dim`, the distinct
/// slices of that dim, in lexicographic order. Every NaN is distinct. Not differentiable.
std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& self, bool sorted = true,
                                          bool return_inverse = false, bool return_counts = false,
                                          std::optional<int64_t> dim = {});
/// The same for runs of equal elements, in their order.
std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& self,
                                                      bool return_inverse = false,
                                                      bool return_counts = false,
                                                      std::optional<int64_t> dim = {});

}  // namespace tensora

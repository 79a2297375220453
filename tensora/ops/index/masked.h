#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// `self` with `value`, cast to its dtype, where `mask`, broadcast with it, is true.
Tensor masked_fill(const Tensor& self, const Tensor& mask, Scalar value);
Tensor masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value);
const Tensor& masked_fill_(const Tensor& self, const Tensor& mask, Scalar value);
const Tensor& masked_fill_(const Tensor& self, const Tensor& mask, const Tensor& value);
/// The elements of `self` where `mask`, broadcast with it, is true, as a 1-D tensor.
Tensor masked_select(const Tensor& self, const Tensor& mask);

}  // namespace tensora

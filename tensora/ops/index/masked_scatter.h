#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// `self` with its elements where `mask`, broadcast with it, is true replaced by the elements of
/// `source`, one after the other; `source` must have as many, and the same dtype.
Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source);
const Tensor& masked_scatter_(const Tensor& self, const Tensor& mask, const Tensor& source);

}  // namespace tensora

#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// The differences of adjacent elements along `dim`, taken `n` times. `prepend` and `append`, if
/// given, are joined to the line first. Of bools: whether they differ.
Tensor diff(const Tensor& self, int64_t n = 1, int64_t dim = -1, const Tensor& prepend = {},
            const Tensor& append = {});

/// The sum of a matrix's diagonal.
Tensor trace(const Tensor& self);

}  // namespace tensora

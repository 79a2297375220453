#pragma once

#include <string_view>

#include "tensora/core/dtype.h"
#include "tensora/core/scalar.h"

namespace tensora {

/// The number as an element of `dtype` holds it: 0.5 is `true` as a bool and 0 as an integer.
/// Throws, naming `op`, where it is finite and beyond the dtype's range.
Scalar fit_scalar(Scalar value, DType dtype, std::string_view op);

}  // namespace tensora

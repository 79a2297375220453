#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// Whether `gradient` is the 1 with which the running backward began, as nobody has changed it: a
/// factor that need not be applied. Known without a look at the device.
bool is_unit_gradient(const Tensor& gradient);

}  // namespace tensora

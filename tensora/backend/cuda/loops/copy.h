#pragma once

#include <string_view>

#include "tensora/core/scalar.h"
#include "tensora/core/view.h"

namespace tensora::cuda {

/// Copies between two views on one device, broadcasting and casting; queued on the current stream.
void copy_elements(std::string_view op, const View& from, const View& to);

/// Sets every element.
void fill_elements(std::string_view op, const View& to, Scalar value);

}  // namespace tensora::cuda

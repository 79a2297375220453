#pragma once

// Internal header: how the functions of scattering read their index and their source.

#include <string_view>

#include "tensora/core/tensor.h"

namespace tensora::scattering {

/// The index of a scatter into a tensor: without elements, PyTorch lets it have any shape.
Tensor index_for(const Tensor& into, const Tensor& index);

/// The part of a scatter's `src` that its index covers, in the index's shape: PyTorch lets src be
/// larger, and counts a 0-dim tensor as a vector of one element. Throws, naming `op`, where src is
/// smaller.
Tensor covered(const Tensor& src, const Tensor& index, std::string_view op);

}  // namespace tensora::scattering

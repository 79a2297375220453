#pragma once

#include <span>
#include <string>

#include "tensora/core/tensor.h"

namespace tensora::data {

/// A tensor from an IDX file, the format of MNIST, plain or packed by gzip. Throws where it is
/// something else, is cut off, or holds more or fewer bytes than its header says.
Tensor read_idx(const std::string& path);
/// The same for the contents of a file.
Tensor decode_idx(std::span<const uint8_t> file);

}  // namespace tensora::data

#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// A tensor's elements in memory, for code that reads or writes them without an op, such as a
/// collective. Kernels that were deferred and use the memory run first.
inline const View& data_of(const Tensor& tensor) {
  static_cast<void>(tensor.data_ptr());
  return tensor.view_of_data();
}

}  // namespace tensora

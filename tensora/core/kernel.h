#pragma once

#include <span>
#include <string_view>

#include "tensora/core/view.h"

namespace tensora {

/// What a kernel sees. Undefined optional inputs are null.
struct KernelContext {
  std::string_view op;
  std::span<const View* const> in;
  std::span<const View* const> out;
  Device device;
  DType compute_dtype;  // pointwise ops: in which the inputs meet

  const View& input(size_t i) const { return *in[i]; }
  const View& output(size_t i = 0) const { return *out[i]; }
};

}  // namespace tensora

#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "tensora/core/device.h"
#include "tensora/core/dtype.h"

namespace tensora {

class Tensor;
using TensorList = std::vector<Tensor>;

/// How a factory makes its tensor: `zeros({2, 3}, {.dtype = kFloat64, .device = "cuda"})`.
struct TensorOptions {
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
  bool requires_grad = false;
};

}  // namespace tensora

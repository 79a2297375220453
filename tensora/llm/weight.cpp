#include "tensora/llm/weight.h"

#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::llm {

int64_t Weight::bytes() const {
  int64_t sum = data.defined() ? static_cast<int64_t>(data.nbytes()) : 0;
  if (scale.defined()) sum += static_cast<int64_t>(scale.nbytes());
  return sum;
}

Weight Weight::to(Device device) const {
  return {.data = data.to(device), .scale = scale.defined() ? scale.to(device) : scale};
}

Tensor Weight::dequantized() const {
  const Tensor wide = data.is_quantized() ? dequantize(data) : data.to(kFloat32);
  return scale.defined() ? wide * scale.unsqueeze(-1) : wide;
}

Weight Weight::rows(int64_t first, int64_t count) const {
  return {.data = data.narrow(0, first, count),
          .scale = scale.defined() ? scale.narrow(0, first, count) : scale};
}

}  // namespace tensora::llm

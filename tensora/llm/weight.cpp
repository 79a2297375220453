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

void place_together(std::span<Weight* const> weights) {
  constexpr size_t kAlignment = 64;  // of each matrix, in bytes: kernels read whole vectors
  const Weight& first = *weights.front();
  int64_t rows = 0;
  for (const Weight* weight : weights) {
    const Tensor& data = weight->data;
    if (data.device().is_cpu() || data.device() != first.data.device() ||
        data.dtype() != first.data.dtype() || data.size(1) != first.data.size(1) ||
        weight->scale.defined() != first.scale.defined() || data.nbytes() % kAlignment != 0)
      return;
    rows += data.size(0);
  }
  const TensorOptions options{.dtype = first.data.dtype(), .device = first.data.device()};
  Weight all{.data = empty({rows, first.data.size(1)}, options)};
  if (first.scale.defined())
    all.scale = empty({rows}, {.dtype = first.scale.dtype(), .device = options.device});
  int64_t row = 0;
  for (Weight* weight : weights) {
    const Weight part = all.rows(row, weight->data.size(0));
    part.data.copy_(weight->data);
    if (part.scale.defined()) part.scale.copy_(weight->scale);
    row += part.data.size(0);
    *weight = part;
  }
}

}  // namespace tensora::llm

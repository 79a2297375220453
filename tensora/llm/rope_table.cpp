#include "tensora/llm/rope_table.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/ops.h"
#include "tensora/ops/operators.h"

namespace tensora::llm {

Tensor rope_table(const ModelConfig& config, RopeKind kind, int64_t rows, int64_t length,
                  Device device) {
  check(rows > 0 && length > 0,
        "rope_table: the numbers of rows and positions must be positive, got ", rows, " and ",
        length);
  nn::RotaryOptions options = config.rope;
  if (kind == RopeKind::local && config.local_rope_base)
    options = {.max_positions = options.max_positions, .base = *config.local_rope_base};
  const auto [steps, strength] =
      nn::RotaryEmbedding(config.rotary_dim, options).frequencies(length);
  const inference_mode silent;
  const Tensor place = arange(rows, TensorOptions{.dtype = kFloat32, .device = device});
  const Tensor angles = place.unsqueeze(1) * tensor(steps, {.dtype = kFloat32}).to(device);
  const Tensor table = empty({rows, config.rotary_dim}, {.dtype = kFloat32, .device = device});
  const int64_t half = config.rotary_dim / 2;
  table.narrow(1, 0, half).copy_(cos(angles) * strength);
  table.narrow(1, half, half).copy_(sin(angles) * strength);
  return table;
}

}  // namespace tensora::llm

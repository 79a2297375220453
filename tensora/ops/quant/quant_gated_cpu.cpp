// Widest instruction set: AVX-512 VNNI. See Note [One kernel, several instruction sets].
#include <optional>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/matrix/linear_activation_values.h"
#include "tensora/ops/quant/normalised_rows.h"
#include "tensora/ops/quant/quant_gated_op.h"
#include "tensora/ops/quant/quant_rows.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

void scale_columns(float* sums, int64_t width, const float* scales) {
  for (int64_t j = 0; j < width; ++j) sums[j] *= scales[j];
}

// activation(gate) * up, in place of gate.
void gate_row(Activation activation, float* gate, const float* up, int64_t width) {
  visit_activation(activation, [&](auto functor) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) gate[j] = functor.forward(gate[j]) * up[j];
  });
}

void quant_gated_kernel(const KernelContext& context, const QuantGatedAttrs& attrs) {
  const View &gate = context.input(1), &up = context.input(2), &out = context.output();
  if (out.numel == 0) return;
  const float* scales[2] = {};
  for (size_t i = 0; i < 2; ++i)
    if (3 + i < context.in.size() && context.in[3 + i])
      scales[i] = context.input(3 + i).as<const float>();
  const NormalisedRows normalised(context, QuantGatedAttrs::kNorm, attrs.eps);
  Activations x(normalised.view());
  x.prepare(gate.dtype);
  x.prepare(up.dtype);
  const WeightRows weights[2] = {weight_rows(gate), weight_rows(up)};
  const int64_t total = gate.sizes[0], size = static_cast<int64_t>(element_size(out.dtype));
  const auto few = [&](int64_t begin, int64_t end) {
    const int64_t width = end - begin, rows = x.rows();
    float few_sums[2 * kRowsAtOnce];  // enough for a single row
    std::optional<HostScratch<float>> room;
    if (rows > 1) room.emplace(2 * rows * width);
    float* const sums = room ? room->data() : few_sums;
    float* const both[2] = {sums, sums + rows * width};
    x.multiply(gate.dtype, weights[0], begin, end, both[0], width);
    x.multiply(up.dtype, weights[1], begin, end, both[1], width);
    for (int64_t r = 0; r < rows; ++r) {
      for (int i = 0; i < 2; ++i)
        if (scales[i]) scale_columns(both[i] + r * width, width, scales[i] + begin);
      gate_row(attrs.activation, both[0] + r * width, both[1] + r * width, width);
      store_fn<float>(out.dtype)(both[0] + r * width, out.as<char>() + (r * total + begin) * size,
                                 1, width);
    }
  };
  parallel_for(total, rows_per_task(weights[0], x.rows()), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kRowsAtOnce) few(at, std::min(end, at + kRowsAtOnce));
  });
}

}  // namespace

void register_quant_gated_cpu() { quant_gated_op.set_kernel(DeviceType::cpu, quant_gated_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA

#include "tensora/ops/quant/quantize.h"

#include <algorithm>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/quant/q8_0.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kBlocksPerTask = 512;
constexpr int kNumbers = BlockQ8_0::kNumbers;

template <class T>
void quantize_blocks(const T* from, BlockQ8_0* to, int64_t blocks) {
  parallel_for(blocks, kBlocksPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      float values[kNumbers];
      float largest = 0;
      for (int i = 0; i < kNumbers; ++i) {
        values[i] = convert_element<float>(from[b * kNumbers + i]);
        // NaN stays: it is not below anything.
        if (!(math::abs(values[i]) <= largest)) largest = math::abs(values[i]);
      }
      const float scale = BlockQ8_0::scale_of(largest);
      to[b].scale = Half(scale);
      for (int i = 0; i < kNumbers; ++i) to[b].q[i] = BlockQ8_0::rounded(values[i], scale);
    }
  });
}

template <class T>
void dequantize_blocks(const BlockQ8_0* from, T* to, int64_t blocks) {
  parallel_for(blocks, kBlocksPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int i = 0; i < kNumbers; ++i) to[b * kNumbers + i] = store_element<T>(from[b].number(i));
  });
}

void quantize_kernel(const KernelContext& context, const QuantizeAttrs&) {
  const View &x = context.input(0), &out = context.output();
  visit_floating(x.dtype, context.op, [&]<class T>() {
    quantize_blocks(x.as<const T>(), out.as<BlockQ8_0>(), out.numel / kNumbers);
  });
}

void dequantize_kernel(const KernelContext& context, const DequantizeAttrs&) {
  const View &x = context.input(0), &out = context.output();
  visit_floating(out.dtype, context.op, [&]<class T>() {
    dequantize_blocks(x.as<const BlockQ8_0>(), out.as<T>(), out.numel / kNumbers);
  });
}

}  // namespace

void register_quantize_cpu() {
  quantize_op.set_kernel(DeviceType::cpu, quantize_kernel);
  dequantize_op.set_kernel(DeviceType::cpu, dequantize_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/quant/quantize.h"

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/quant/blocks.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kNumbersPerTask = 16384;

// A block at a time goes through floats, so that formats and dtypes do not multiply.
using Load = void (*)(const View& from, int64_t begin, int count, float* to);
using Store = void (*)(const float* from, int count, const View& to, int64_t begin);

template <class T>
void load(const View& from, int64_t begin, int count, float* to) {
  const T* values = from.as<const T>() + begin;
  for (int i = 0; i < count; ++i) to[i] = convert_element<float>(values[i]);
}

template <class T>
void store(const float* from, int count, const View& to, int64_t begin) {
  T* values = to.as<T>() + begin;
  for (int i = 0; i < count; ++i) values[i] = store_element<T>(from[i]);
}

template <class Block>
void quantize_blocks(const View& from, Load load_numbers, const View& to) {
  constexpr int kNumbers = Block::kNumbers;
  Block* blocks = to.as<Block>();
  parallel_for(to.numel / kNumbers, kNumbersPerTask / kNumbers, [&](int64_t begin, int64_t end) {
    float numbers[kNumbers];
    for (int64_t b = begin; b < end; ++b) {
      load_numbers(from, b * kNumbers, kNumbers, numbers);
      blocks[b].encode(numbers);
    }
  });
}

template <class Block>
void dequantize_blocks(const View& from, Store store_numbers, const View& to) {
  constexpr int kNumbers = Block::kNumbers;
  const Block* blocks = from.as<const Block>();
  parallel_for(to.numel / kNumbers, kNumbersPerTask / kNumbers, [&](int64_t begin, int64_t end) {
    float numbers[kNumbers];
    for (int64_t b = begin; b < end; ++b) {
      for (int i = 0; i < kNumbers; ++i) numbers[i] = blocks[b].number(i);
      store_numbers(numbers, kNumbers, to, b * kNumbers);
    }
  });
}

void quantize_kernel(const KernelContext& context, const QuantizeAttrs&) {
  const View &x = context.input(0), &out = context.output();
  const Load load_numbers = visit_floating(x.dtype, context.op, []<class T>() { return load<T>; });
  visit_block(out.dtype, [&]<class Block>() { quantize_blocks<Block>(x, load_numbers, out); });
}

void dequantize_kernel(const KernelContext& context, const DequantizeAttrs&) {
  const View &x = context.input(0), &out = context.output();
  const Store store_numbers =
      visit_floating(out.dtype, context.op, []<class T>() { return store<T>; });
  visit_block(x.dtype, [&]<class Block>() { dequantize_blocks<Block>(x, store_numbers, out); });
}

}  // namespace

void register_quantize_cpu() {
  quantize_op.set_kernel(DeviceType::cpu, quantize_kernel);
  dequantize_op.set_kernel(DeviceType::cpu, dequantize_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/quant/blocks.h"
#include "tensora/ops/quant/quantize.h"

namespace tensora::cuda {
namespace {

// Encoders search for scales with many registers; few threads leave each of them enough.
constexpr int kEncodingThreads = 64;

// A number of any floating dtype: encoders are long, and one per format is enough.
__device__ float number_at(const void* from, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::float16:
      return load_value<float>(static_cast<const Half*>(from)[i]);
    case DType::bfloat16:
      return load_value<float>(static_cast<const BFloat16*>(from)[i]);
    case DType::float32:
      return static_cast<const float*>(from)[i];
    default:
      return static_cast<float>(static_cast<const double*>(from)[i]);
  }
}

// A thread encodes a block. Weights are quantized once, when they are loaded.
template <class Block>
__global__ void __launch_bounds__(kEncodingThreads)
    quantize_blocks(const void* from, DType dtype, Block* to, int64_t blocks) {
  const int64_t b = int64_t{blockIdx.x} * kEncodingThreads + threadIdx.x;
  if (b >= blocks) return;
  float numbers[Block::kNumbers];
#pragma unroll 1
  for (int i = 0; i < Block::kNumbers; ++i)
    numbers[i] = number_at(from, dtype, b * Block::kNumbers + i);
  to[b].encode(numbers);
}

template <class Block, class T>
__global__ void __launch_bounds__(kThreads)
    dequantize_blocks(const Block* from, T* to, int64_t numbers) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < numbers)
    to[i] = store_value<T>(from[i / Block::kNumbers].number(static_cast<int>(i % Block::kNumbers)));
}

dim3 groups_of(std::string_view op, int64_t items, int threads) {
  const int64_t groups = (items + threads - 1) / threads;
  check(groups < int64_t{1} << 31, op, ": too many elements for one launch");
  return dim3(static_cast<unsigned>(groups));
}

void quantize_kernel(const KernelContext& context, const QuantizeAttrs&) {
  const View &x = context.input(0), &out = context.output();
  visit_block(out.dtype, [&]<class Block>() {
    const int64_t blocks = out.numel / Block::kNumbers;
    const dim3 groups = groups_of(context.op, blocks, kEncodingThreads);
    Launch{context.op, context.device.index}(quantize_blocks<Block>, groups, dim3(kEncodingThreads),
                                             x.as<const void>(), x.dtype, out.as<Block>(), blocks);
  });
}

void dequantize_kernel(const KernelContext& context, const DequantizeAttrs&) {
  const View &x = context.input(0), &out = context.output();
  const dim3 groups = groups_of(context.op, out.numel, kThreads);
  visit_block(x.dtype, [&]<class Block>() {
    visit_floating(out.dtype, context.op, [&]<class T>() {
      Launch{context.op, context.device.index}(dequantize_blocks<Block, T>, groups, dim3(kThreads),
                                               x.as<const Block>(), out.as<T>(), out.numel);
    });
  });
}

}  // namespace

void register_quantize_cuda() {
  quantize_op.set_kernel(DeviceType::cuda, quantize_kernel);
  dequantize_op.set_kernel(DeviceType::cuda, dequantize_kernel);
}

}  // namespace tensora::cuda

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/quant/q8_0.h"
#include "tensora/ops/quant/quantize.h"

namespace tensora::cuda {
namespace {

constexpr int kNumbers = BlockQ8_0::kNumbers;
static_assert(kNumbers == 32, "a warp takes a block, a thread a number");
constexpr int64_t kBlocksPerGroup = kThreads / kNumbers;

template <class T>
__global__ void __launch_bounds__(kThreads)
    quantize_blocks(const T* from, BlockQ8_0* to, int64_t blocks) {
  const int64_t block = blockIdx.x * kBlocksPerGroup + threadIdx.x / kNumbers;
  const int lane = threadIdx.x % kNumbers;
  if (block >= blocks) return;  // whole warps
  const float value = load_value<float>(from[block * kNumbers + lane]);
  float largest = fabsf(value);
#pragma unroll
  for (int distance = kNumbers / 2; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(kWholeWarp, largest, distance);
    // NaN stays: it is not below anything.
    largest = largest <= other || other != other ? other : largest;
  }
  const float scale = BlockQ8_0::scale_of(largest);
  if (lane == 0) to[block].scale = Half(scale);
  to[block].q[lane] = BlockQ8_0::rounded(value, scale);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    dequantize_blocks(const BlockQ8_0* from, T* to, int64_t blocks) {
  const int64_t block = blockIdx.x * kBlocksPerGroup + threadIdx.x / kNumbers;
  const int lane = threadIdx.x % kNumbers;
  if (block < blocks) to[block * kNumbers + lane] = store_value<T>(from[block].number(lane));
}

struct Grid {
  int64_t blocks;  // of numbers
  dim3 groups;     // of threads
};

Grid grid_of(std::string_view op, const View& view) {
  const int64_t blocks = view.numel / kNumbers;
  const int64_t groups = (blocks + kBlocksPerGroup - 1) / kBlocksPerGroup;
  check(groups < int64_t{1} << 31, op, ": too many elements for one launch: ", view.numel);
  return {blocks, dim3(static_cast<unsigned>(groups))};
}

void quantize_kernel(const KernelContext& context, const QuantizeAttrs&) {
  const View &x = context.input(0), &out = context.output();
  const Grid grid = grid_of(context.op, out);
  visit_floating(x.dtype, context.op, [&]<class T>() {
    Launch{context.op, context.device.index}(quantize_blocks<T>, grid.groups, dim3(kThreads),
                                             x.as<const T>(), out.as<BlockQ8_0>(), grid.blocks);
  });
}

void dequantize_kernel(const KernelContext& context, const DequantizeAttrs&) {
  const View &x = context.input(0), &out = context.output();
  const Grid grid = grid_of(context.op, out);
  visit_floating(out.dtype, context.op, [&]<class T>() {
    Launch{context.op, context.device.index}(dequantize_blocks<T>, grid.groups, dim3(kThreads),
                                             x.as<const BlockQ8_0>(), out.as<T>(), grid.blocks);
  });
}

}  // namespace

void register_quantize_cuda() {
  quantize_op.set_kernel(DeviceType::cuda, quantize_kernel);
  dequantize_op.set_kernel(DeviceType::cuda, dequantize_kernel);
}

}  // namespace tensora::cuda

#include "tensora/backend/cuda/loops/early.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/norm/residual_norm_call.h"
#include "tensora/ops/quant/quant_results.cuh"

namespace tensora::cuda {
namespace {

// A block has a row; a thread keeps so many of its numbers, and reads what is beyond again.
constexpr int kNormThreads = 512, kKept = 16;

__device__ inline float stream_at(const ResidualNormCall& call, int64_t at) {
  const float value = any_number(call.x, call.x_dtype, at);
  return call.residual ? value + any_number(call.residual, call.residual_dtype, at) : value;
}

__device__ inline float block_sum(float value) {
  __shared__ float sums[kNormThreads / 32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  value = sums[threadIdx.x % (kNormThreads / 32)];
#pragma unroll
  for (int distance = kNormThreads / 64; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  return value;
}

__global__ void __launch_bounds__(kNormThreads)
    norm_rows(const __grid_constant__ ResidualNormCall call) {
  begin_next();
  wait_for_previous();
  const int64_t first = int64_t{blockIdx.x} * call.width;
  const int thread = static_cast<int>(threadIdx.x);
  float kept[kKept], squares = 0;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int d = i * kNormThreads + thread;
    kept[i] = d < call.width ? stream_at(call, first + d) : 0.0f;
    squares = fmaf(kept[i], kept[i], squares);
  }
  for (int d = kKept * kNormThreads + thread; d < call.width; d += kNormThreads) {
    const float value = stream_at(call, first + d);
    squares = fmaf(value, value, squares);
  }
  const float factor = rsqrtf(block_sum(squares) / static_cast<float>(call.width) + call.eps);
  const auto store = [&](int d, float value) {
    if (call.sum) static_cast<float*>(call.sum)[first + d] = value;
    const float weight = any_number(call.weight, call.weight_dtype, d) + call.unit_offset;
    store_number(call.out, call.out_dtype, first + d, value * factor * weight);
  };
#pragma unroll
  for (int i = 0; i < kKept; ++i)
    if (i * kNormThreads + thread < call.width) store(i * kNormThreads + thread, kept[i]);
  for (int d = kKept * kNormThreads + thread; d < call.width; d += kNormThreads)
    store(d, stream_at(call, first + d));
}

}  // namespace

void norm_residual(std::string_view op, int device, const ResidualNormCall& call) {
  check(call.rows < int64_t{1} << 31, op, ": too many rows for one launch: ", call.rows);
  Launch{op, device, 0, true}(norm_rows, dim3(static_cast<unsigned>(call.rows)), dim3(kNormThreads),
                              call);
}

}  // namespace tensora::cuda

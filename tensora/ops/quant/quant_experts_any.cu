#include <algorithm>

#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/quant/quant_experts_any.h"
#include "tensora/ops/quant/quant_numbers.cuh"
#include "tensora/ops/quant/quant_results.cuh"

// Any activations times any experts' weights, number by number.

namespace tensora::cuda {
namespace {

constexpr int kAnyWarps = 8;

// A warp has one weight row of a tile's expert.
template <class Block>
__global__ void __launch_bounds__(kAnyWarps * 32)
    multiply_any_experts(const __grid_constant__ ExpertsProduct call) {
  const int tile = static_cast<int>(blockIdx.x) % call.most;
  const int n =
      static_cast<int>(blockIdx.x) / call.most * kAnyWarps + static_cast<int>(threadIdx.x) / 32;
  const ExpertTile own = call.tiles[tile];
  if (own.rows == 0 || n >= call.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = int64_t{own.expert} * call.rows + n, first = int64_t{tile} * call.width;
  const char* const weights = call.weight + row * call.row_bytes;
  const auto* const x = reinterpret_cast<const float*>(call.x) + first * call.k;
  float sums[kAnyExpertRows] = {};
  for (int k = lane; k < call.k; k += 32) {
    const float weight = number_of<Block>(weights, k);
#pragma unroll
    for (int r = 0; r < kAnyExpertRows; ++r)
      if (r < own.rows) sums[r] = fmaf(weight, x[int64_t{r} * call.k + k], sums[r]);
  }
  const float scale = call.scale ? call.scale[row] : 1.0f;
#pragma unroll
  for (int r = 0; r < kAnyExpertRows; ++r) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      sums[r] += __shfl_xor_sync(kWholeWarp, sums[r], distance);
    if (lane == r && r < own.rows)
      reinterpret_cast<float*>(call.out)[(first + r) * call.rows + n] = sums[r] * scale;
  }
}

}  // namespace

void any_experts(std::string_view op, int device, DType weight, const ExpertsProduct& call) {
  const int64_t blocks = int64_t{(call.rows + kAnyWarps - 1) / kAnyWarps} * call.most;
  check(blocks < int64_t{1} << 31, op, ": too many rows for one launch");
  visit_weight(weight, [&]<class Block>() {
    Launch{op, device}(multiply_any_experts<Block>, dim3(static_cast<unsigned>(blocks)),
                       dim3(kAnyWarps * 32), call);
  });
}

}  // namespace tensora::cuda

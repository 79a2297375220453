#pragma once

// Internal header
// What becomes of one head of one token before it is used or stored. A warp has the head in shared
// memory, as float32. Loops are not unrolled: these kernels run for microseconds, in which reading
// their instructions counts (Note [Attention of one step]).

#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/ops/paged/paged_store_call.h"
#include "tensora/ops/quant/q8_0.h"
#include "tensora/ops/quant/quant_results.cuh"

namespace tensora::cuda {

// Sums over a warp; every lane gets the sum.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  return value;
}

__device__ inline void normalise(const StoreCall& call, const void* weight, DType dtype,
                                 float* head) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float squares = 0;
#pragma unroll 1
  for (int d = lane; d < call.size; d += 32) squares = fmaf(head[d], head[d], squares);
  const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(call.size) + call.eps);
#pragma unroll 1
  for (int d = lane; d < call.size; d += 32)
    head[d] *= factor * (any_number(weight, dtype, d) + call.unit_offset);
  __syncwarp();
}

/// angles: of the token's position, cosines and then sines.
__device__ inline void turn(const StoreCall& call, const float* angles, float* head) {
  const int half = call.turned / 2;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) % 32; i < half; i += 32) {
    const int a = call.in_halves ? i : 2 * i, b = call.in_halves ? i + half : 2 * i + 1;
    const float cosine = angles[i], sine = angles[half + i], x = head[a], y = head[b];
    // As in Note [Attention of one step], whose keys have the same bits.
    head[a] = fmaf(x, cosine, -(y * sine));
    head[b] = fmaf(y, cosine, x * sine);
  }
  __syncwarp();
}

/// row: of the cache, in rows of `size` numbers.
__device__ inline void store_cached(const StoreCall& call, char* cache, int64_t row,
                                    const float* from) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (call.cache_dtype == DType::q8_0) {
    auto* const blocks = reinterpret_cast<BlockQ8_0*>(cache) + row * (call.size / 32);
#pragma unroll 1
    for (int b = 0; b < call.size / 32; ++b) {
      const float value = from[b * 32 + lane];
      float largest = fabsf(value);
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(kWholeWarp, largest, distance);
        largest = largest <= other || other != other ? other : largest;  // NaN stays
      }
      const float scale = BlockQ8_0::scale_of(largest);
      if (lane == 0) blocks[b].scale = Half(scale);
      blocks[b].q[lane] = BlockQ8_0::rounded(value, scale);
    }
    return;
  }
#pragma unroll 1
  for (int d = lane; d < call.size; d += 32) {
    if (call.cache_dtype == DType::float8_e4m3fn)
      reinterpret_cast<Float8E4M3*>(cache)[row * call.size + d] = Float8E4M3(from[d]);
    else
      store_number(cache, call.cache_dtype, row * call.size + d, from[d]);
  }
}

}  // namespace tensora::cuda

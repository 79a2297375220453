#include "tensora/backend/cuda/loops/early.cuh"
#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/paged/paged_store_call.h"
#include "tensora/ops/quant/q8_0.h"
#include "tensora/ops/quant/quant_results.cuh"

namespace tensora::cuda {
namespace {

constexpr int kStoreWarps = 4;

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
  for (int d = lane; d < call.size; d += 32) squares = fmaf(head[d], head[d], squares);
  const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(call.size) + call.eps);
  for (int d = lane; d < call.size; d += 32)
    head[d] *= factor * (any_number(weight, dtype, d) + call.unit_offset);
  __syncwarp();
}

__device__ inline void turn(const StoreCall& call, long long position, float* head) {
  const int half = call.turned / 2;
  const float* const angles = call.cos_sin + position * call.turned;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < half; i += 32) {
    const int a = call.in_halves ? i : 2 * i, b = call.in_halves ? i + half : 2 * i + 1;
    const float cosine = angles[i], sine = angles[half + i], x = head[a], y = head[b];
    head[a] = x * cosine - y * sine;
    head[b] = y * cosine + x * sine;
  }
  __syncwarp();
}

__device__ inline void store_cached(const StoreCall& call, char* cache, long long slot, int head,
                                    const float* from) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row =
      (slot / call.block_size * call.kv_heads + head) * call.block_size + slot % call.block_size;
  if (call.cache_dtype == DType::q8_0) {
    auto* const blocks = reinterpret_cast<BlockQ8_0*>(cache) + row * (call.size / 32);
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
  for (int d = lane; d < call.size; d += 32) {
    if (call.cache_dtype == DType::float8_e4m3fn)
      reinterpret_cast<Float8E4M3*>(cache)[row * call.size + d] = Float8E4M3(from[d]);
    else
      store_number(cache, call.cache_dtype, row * call.size + d, from[d]);
  }
}

// A warp has one head of one token.
__global__ void __launch_bounds__(kStoreWarps * 32)
    store_heads(const __grid_constant__ StoreCall call) {
  extern __shared__ float heads_of_block[];
  begin_next();
  wait_for_previous();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int all = call.heads + 2 * call.kv_heads;
  const int64_t number = int64_t{blockIdx.x} * kStoreWarps + warp;
  if (number >= call.tokens * all) return;
  const int64_t token = number / all;
  const int index = static_cast<int>(number % all), key = index - call.heads,
            value = key - call.kv_heads;
  float* const head = heads_of_block + warp * call.size;
  for (int d = lane; d < call.size; d += 32)
    head[d] = any_number(call.qkv, call.dtype, number * call.size + d);
  __syncwarp();
  const long long slot = call.slots[token];
  if (slot < -1 || slot >= call.places) {
    if (lane == 0) note_fault(call.fault, call.op, call.slot_sentence, slot, call.places, 0);
    return;
  }
  if (value >= 0) {
    if (slot >= 0) store_cached(call, call.values, slot, value, head);
    return;
  }
  const void* const norm = key < 0 ? call.q_norm : call.k_norm;
  if (norm) normalise(call, norm, key < 0 ? call.q_norm_dtype : call.k_norm_dtype, head);
  const long long position =
      checked_index(call.positions[token], {call.op, call.fault, 0, call.known_positions, 0});
  if (position < 0) return;
  turn(call, position, head);
  if (key >= 0) {
    if (slot >= 0) store_cached(call, call.keys, slot, key, head);
    return;
  }
  for (int d = lane; d < call.size; d += 32)
    store_number(call.query, call.dtype, (token * call.heads + index) * call.size + d, head[d]);
}

}  // namespace

void store_paged(std::string_view op, int device, const StoreCall& call) {
  const int64_t heads = call.tokens * (call.heads + 2 * call.kv_heads);
  const int64_t groups = (heads + kStoreWarps - 1) / kStoreWarps;
  check(groups < int64_t{1} << 31 && call.size <= 2048, op, ": too many heads (", heads,
        ") or numbers of a head (", call.size, ") for one launch");
  Launch{op, device, static_cast<unsigned>(kStoreWarps * call.size * 4), true}(
      store_heads, dim3(static_cast<unsigned>(groups)), dim3(kStoreWarps * 32), call);
}

}  // namespace tensora::cuda

#include <algorithm>
#include <type_traits>

#include "tensora/backend/cuda/loops/early.cuh"
#include "tensora/ops/quant/quant_numbers.cuh"
#include "tensora/ops/quant/quant_results.cuh"
#include "tensora/ops/quant/route_experts_call.h"

// Note [Routing]
// Few tokens and a small router: a block computes one token's logits and chooses; it has requested
// the router's first numbers before the previous kernel has ended. Otherwise a warp computes one
// expert's logits of eight tokens, so that the router is read once for them, and a second kernel
// chooses.

namespace tensora::cuda {
namespace {

constexpr int kRouteThreads = 1024, kRouteWarps = kRouteThreads / 32;
constexpr int kAtOnce = 8;  // tokens

template <class Block>
constexpr bool is_plain = Block::kNumbers == 1 && sizeof(Block) >= 2;

template <class Block, int count>
__device__ inline void load_weights(const char* row, int k, float (&to)[count]) {
  if constexpr (count == 4 && sizeof(Block) == 4) {
    const float4 four = reinterpret_cast<const float4*>(row)[k / 4];
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  } else if constexpr (count == 4) {
    const uint2 words = reinterpret_cast<const uint2*>(row)[k / 4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto bits = static_cast<unsigned short>((i < 2 ? words.x : words.y) >> i % 2 * 16);
      to[i] = __builtin_bit_cast(Block, bits).number(0);
    }
  } else {
    to[0] = number_of<Block>(row, k);
  }
}

template <int count>
__device__ inline void load_x(const RouteCall& call, int64_t at, float (&to)[count]) {
  if constexpr (count == 4) {
    if (call.x_dtype == DType::float32) {
      const float4 four = reinterpret_cast<const float4*>(call.x)[at / 4];
      to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
      return;
    }
    const uint2 words = reinterpret_cast<const uint2*>(call.x)[at / 4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto bits = static_cast<unsigned short>((i < 2 ? words.x : words.y) >> i % 2 * 16);
      to[i] = call.x_dtype == DType::float16
                  ? static_cast<float>(__builtin_bit_cast(Half, bits))
                  : static_cast<float>(__builtin_bit_cast(BFloat16, bits));
    }
  } else {
    to[0] = any_number(call.x, call.x_dtype, at);
  }
}

__device__ inline float times_x(const RouteCall& call, int64_t token, int k,
                                const float (&weights)[4]) {
  float x[4], sum = 0;
  load_x(call, token * call.k + k, x);
#pragma unroll
  for (int i = 0; i < 4; ++i) sum = fmaf(x[i], weights[i], sum);
  return sum;
}

__device__ inline float sum_of_warp(float sum) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(kWholeWarp, sum, distance);
  return sum;
}

/// One warp chooses by the logits in shared memory, which it destroys.
__device__ inline void choose(const RouteCall& call, int64_t token, float* logits) {
  constexpr float kTaken = -__builtin_huge_valf(), kLeast = -3.402823466e38f;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float most = kLeast;
  for (int e = lane; e < call.experts; e += 32) most = fmaxf(most, logits[e]);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    most = fmaxf(most, __shfl_xor_sync(kWholeWarp, most, distance));
  float all = 0;
  for (int e = lane; e < call.experts; e += 32) {
    all += expf(logits[e] - most);
    // NaN is never chosen before a number, and each expert once.
    logits[e] = fmaxf(logits[e], kLeast);
  }
  all = sum_of_warp(all);
  __syncwarp();
  float taken = 0;
  for (int i = 0; i < call.used; ++i) {
    float best = kTaken;
    int expert = call.experts;
    for (int e = lane; e < call.experts; e += 32)
      if (logits[e] > best) best = logits[e], expert = e;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      const float other = __shfl_xor_sync(kWholeWarp, best, distance);
      const int its = __shfl_xor_sync(kWholeWarp, expert, distance);
      if (other > best || (other == best && its < expert)) best = other, expert = its;
    }
    const float share = expf(best - most) / all;
    taken += share;
    if (lane == 0) {
      logits[expert] = kTaken;
      call.chosen[token * call.used + i] = expert;
      call.weights[token * call.used + i] = share;
    }
    __syncwarp();
  }
  const float factor = call.factor / (call.normalize ? taken : 1.0f);
  for (int i = lane; i < call.used; i += 32) call.weights[token * call.used + i] *= factor;
}

/// A block for each token. Several warps share an expert where there are few.
template <class Block>
__global__ void __launch_bounds__(kRouteThreads)
    route_token(const __grid_constant__ RouteCall call) {
  constexpr int kKept = 8;
  extern __shared__ float logits[];  // of the experts, then of the warps' jobs
  begin_next();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int parts = max(1, kRouteWarps / call.experts), jobs = call.experts * parts;
  float* const sums = logits + call.experts;
  const int64_t token = blockIdx.x;
  const int step = 128 * parts;
  float kept[kKept][4];
  const char* const first = call.router + min(warp, jobs - 1) / parts * call.row_bytes;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int k = (warp % parts) * 128 + i * step + lane * 4;
    if (k < call.k) load_weights<Block>(first, k, kept[i]);
  }
  wait_for_previous();
  for (int job = warp; job < jobs; job += kRouteWarps) {
    const char* const row = call.router + job / parts * call.row_bytes;
    const int begin = job % parts * 128 + lane * 4;
    float sum = 0;
    int i = 0;
    if (job == warp) {
#pragma unroll
      for (; i < kKept; ++i)
        if (begin + i * step < call.k) sum += times_x(call, token, begin + i * step, kept[i]);
    }
#pragma unroll 4
    for (; begin + i * step < call.k; ++i) {
      float weights[4];
      load_weights<Block>(row, begin + i * step, weights);
      sum += times_x(call, token, begin + i * step, weights);
    }
    sum = sum_of_warp(sum);
    if (lane == 0) sums[job] = sum;
  }
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < call.experts; e += kRouteThreads) {
    float sum = 0;
    for (int part = 0; part < parts; ++part) sum += sums[e * parts + part];
    logits[e] = sum;
  }
  __syncthreads();
  if (warp == 0) choose(call, token, logits);
}

template <class Block, int count>
__global__ void __launch_bounds__(256) route_logits(const __grid_constant__ RouteCall call) {
  begin_next();
  wait_for_previous();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int expert = static_cast<int>(blockIdx.x) * 8 + static_cast<int>(threadIdx.x) / 32;
  if (expert >= call.experts) return;
  const int first = static_cast<int>(blockIdx.y) * kAtOnce;
  const int there = min(call.tokens - first, kAtOnce);
  const char* const row = call.router + expert * call.row_bytes;
  float sums[kAtOnce] = {};
#pragma unroll 2
  for (int k = lane * count; k < call.k; k += 32 * count) {
    float weights[count];
    load_weights<Block>(row, k, weights);
#pragma unroll
    for (int t = 0; t < kAtOnce; ++t) {
      if (t >= there) break;
      float x[count];
      load_x(call, int64_t{first + t} * call.k + k, x);
#pragma unroll
      for (int e = 0; e < count; ++e) sums[t] = fmaf(x[e], weights[e], sums[t]);
    }
  }
  const float scale = call.router_scale ? call.router_scale[expert] : 1.0f;
#pragma unroll
  for (int t = 0; t < kAtOnce; ++t) {
    const float sum = sum_of_warp(sums[t]) * scale;
    if (lane == 0 && t < there) call.logits[int64_t{first + t} * call.experts + expert] = sum;
  }
}

__global__ void __launch_bounds__(32) route_choices(const __grid_constant__ RouteCall call) {
  extern __shared__ float logits[];
  begin_next();
  wait_for_previous();
  for (int e = static_cast<int>(threadIdx.x); e < call.experts; e += 32)
    logits[e] = call.logits[int64_t{blockIdx.x} * call.experts + e];
  __syncwarp();
  choose(call, blockIdx.x, logits);
}

bool in_fours(const RouteCall& call) {
  return call.k % 4 == 0 &&
         (reinterpret_cast<uintptr_t>(call.x) | reinterpret_cast<uintptr_t>(call.router)) % 16 == 0;
}

}  // namespace

bool routes_at_once(DType router, const RouteCall& call) {
  constexpr int kMostTokens = 16, kMostBytes = 256 << 10;
  return (router == DType::float32 || router == DType::float16 || router == DType::bfloat16) &&
         in_fours(call) && call.tokens <= kMostTokens && call.k > 0 &&
         call.row_bytes * call.experts <= kMostBytes && call.experts <= 1024;
}

void route_tokens(std::string_view op, int device, DType router, const RouteCall& call) {
  const bool at_once = routes_at_once(router, call), fours = in_fours(call);
  const auto of_experts = static_cast<unsigned>(call.experts) * 4;
  visit_weight(router, [&]<class Block>() {
    const dim3 groups(static_cast<unsigned>((call.experts + 7) / 8),
                      static_cast<unsigned>((call.tokens + kAtOnce - 1) / kAtOnce));
    if constexpr (is_plain<Block>) {
      if (at_once)
        return Launch{op, device, of_experts + std::max(of_experts, 4u * kRouteWarps), true}(
            route_token<Block>, dim3(static_cast<unsigned>(call.tokens)), dim3(kRouteThreads),
            call);
      if (fours)
        return Launch{op, device, 0, true}(route_logits<Block, 4>, groups, dim3(256), call);
    }
    Launch{op, device, 0, true}(route_logits<Block, 1>, groups, dim3(256), call);
  });
  if (!at_once)
    Launch{op, device, of_experts, true}(route_choices, dim3(static_cast<unsigned>(call.tokens)),
                                         dim3(32), call);
}

}  // namespace tensora::cuda

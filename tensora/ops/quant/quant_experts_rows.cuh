#pragma once

// Internal header
// Which rows each expert computes, their activations, and the sum of a token's experts. See
// Note [Grouped expert products].

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/ops/quant/quant_experts_call.h"
#include "tensora/ops/quant/quant_results.cuh"

namespace tensora::cuda {

inline constexpr int kSortThreads = 1024;

/// Experts outside the valid range, which callers must not give, are moved into it.
__device__ inline int valid_expert(long long expert, int experts) {
  return static_cast<int>(max(0ll, min(expert, static_cast<long long>(experts - 1))));
}

/// Divides tokens * used rows by expert into tiles. One block; shared memory: two numbers for each
/// expert.
__global__ void __launch_bounds__(kSortThreads)
    sort_expert_rows(const long long* chosen, int count, int experts, ExpertRows rows) {
  extern __shared__ int shared_counts[];
  int* const counts = shared_counts;
  int* const firsts = shared_counts + experts;  // tile of each expert
  __shared__ int total;
  const int thread = static_cast<int>(threadIdx.x);
  for (int e = thread; e < experts; e += kSortThreads) counts[e] = 0;
  __syncthreads();
  for (int i = thread; i < count; i += kSortThreads)
    rows.place[i] = atomicAdd(counts + valid_expert(chosen[i], experts), 1);
  __syncthreads();
  if (thread < 32) {
    int before = 0;
    for (int first = 0; first < experts; first += 32) {
      const int e = first + thread;
      const int own = e < experts ? (counts[e] + rows.width - 1) / rows.width : 0;
      int sum = own;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(kWholeWarp, sum, distance);
        if (thread >= distance) sum += other;
      }
      if (e < experts) firsts[e] = before + sum - own;
      before += __shfl_sync(kWholeWarp, sum, 31);
    }
    if (thread == 0) total = before;
  }
  __syncthreads();
  for (int e = thread; e < experts; e += kSortThreads)
    for (int i = 0; i * rows.width < counts[e]; ++i)
      rows.tiles[firsts[e] + i] = {e, min(counts[e] - i * rows.width, rows.width)};
  for (int i = total + thread; i < rows.most; i += kSortThreads) rows.tiles[i] = {0, 0};
  for (int i = thread; i < count; i += kSortThreads)
    rows.place[i] += firsts[valid_expert(chosen[i], experts)] * rows.width;
}

/// How activations become the rows of a product.
struct ExpertsGather {
  const char* x = nullptr;  // tokens of k numbers
  DType x_dtype = DType::bfloat16;
  const int* place = nullptr;
  int used = 0, width = 0, k = 0;
  int panels = 0;  // of a tile; 0: rows of k numbers
  char* out = nullptr;
  DType out_dtype = DType::bfloat16;
};

__device__ inline void load_group(const ExpertsGather& call, int64_t token, int first,
                                  float (&numbers)[32]) {
  const int left = call.k - first;
  const int64_t at = token * call.k + first;
  const bool is_aligned = reinterpret_cast<uintptr_t>(call.x) % 16 == 0 && call.k % 8 == 0;
  if (left >= 32 && is_aligned && call.x_dtype != DType::float32) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto words = *reinterpret_cast<const uint4*>(call.x + (at + 8 * i) * 2);
      const unsigned all[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const auto bits = static_cast<unsigned short>(all[j / 2] >> j % 2 * 16);
        numbers[8 * i + j] = call.x_dtype == DType::bfloat16
                                 ? static_cast<float>(__builtin_bit_cast(BFloat16, bits))
                                 : static_cast<float>(__builtin_bit_cast(Half, bits));
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 32; ++i)
    numbers[i] = i < left ? any_number(call.x, call.x_dtype, at + i) : 0.0f;
}

/// A thread has a group of 32 numbers of one row; a block is a part of a row.
template <PanelOrder order>
__global__ void __launch_bounds__(128) gather_panels(const __grid_constant__ ExpertsGather call) {
  const int group = static_cast<int>(blockIdx.y) * 128 + static_cast<int>(threadIdx.x);
  if (group * 32 >= call.panels * kPanel) return;
  const int place = call.place[blockIdx.x], row = place % call.width;
  float numbers[32], moved[32];
  load_group(call, static_cast<int>(blockIdx.x) / call.used, group * 32, numbers);
#pragma unroll
  for (int n = 0; n < 32; ++n) moved[panel_place(order, n)] = numbers[n];
  const int64_t panel = int64_t{place / call.width} * call.panels + group / 2;
  char* const out = call.out + panel * call.width * 128;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    unsigned words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float low = moved[8 * i + 2 * j], high = moved[8 * i + 2 * j + 1];
      words[j] = call.out_dtype == DType::float16 ? round_pair<Half>(low, high)
                                                  : round_pair<BFloat16>(low, high);
    }
    *reinterpret_cast<uint4*>(out + panel_byte(row, group % 2 * 64 + 16 * i)) = {
        words[0], words[1], words[2], words[3]};
  }
}

/// The same as float32 rows.
__global__ void __launch_bounds__(kThreads)
    gather_floats(const __grid_constant__ ExpertsGather call) {
  const int64_t token = static_cast<int>(blockIdx.x) / call.used, row = call.place[blockIdx.x];
  for (int k = static_cast<int>(threadIdx.x); k < call.k; k += kThreads)
    reinterpret_cast<float*>(call.out)[row * call.k + k] =
        any_number(call.x, call.x_dtype, token * call.k + k);
}

/// activation(gate) * up, in place of gate; rows that no token has are left out.
__global__ void __launch_bounds__(kThreads)
    gate_floats(float* gate, const float* up, const ExpertTile* tiles, int width, int columns,
                RowsCall::Gate kind) {
  const int row = static_cast<int>(blockIdx.x);
  if (row % width >= tiles[row / width].rows) return;
  const int64_t first = int64_t{row} * columns;
  for (int n = static_cast<int>(threadIdx.x); n < columns; n += kThreads)
    gate[first + n] = activated(gate[first + n], kind) * up[first + n];
}

/// What becomes of the down product's rows.
struct ExpertsSum {
  const float* products = nullptr;  // [splits][row][columns]
  const float* weights = nullptr;   // [token][used]
  const int* place = nullptr;
  const void* residual = nullptr;
  DType residual_dtype = DType::float32;
  char* out = nullptr;
  DType out_dtype = DType::float32;
  int64_t split_stride = 0;
  int splits = 1, used = 0, columns = 0;
};

__global__ void __launch_bounds__(kThreads) sum_experts(const __grid_constant__ ExpertsSum call) {
  const int n = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  if (n >= call.columns) return;
  const int64_t token = blockIdx.x, at = token * call.columns + n;
  float sum = call.residual ? any_number(call.residual, call.residual_dtype, at) : 0.0f;
  for (int i = 0; i < call.used; ++i) {
    const float* const row =
        call.products + int64_t{call.place[token * call.used + i]} * call.columns + n;
    float product = 0;
    for (int s = 0; s < call.splits; ++s) product += row[s * call.split_stride];
    sum = fmaf(call.weights[token * call.used + i], product, sum);
  }
  store_number(call.out, call.out_dtype, at, sum);
}

}  // namespace tensora::cuda

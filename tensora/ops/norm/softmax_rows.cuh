#pragma once

// What the kernels of softmax and of its gradient share.

#include "tensora/ops/norm/held_rows.cuh"

namespace tensora::cuda {

/// Columns: lines that are neighbours in memory, a pack of them per thread.
template <int K>
struct ColumnsOf {
  RowsOf<K> outer;          // the dims beyond the columns
  long long across[K];      // bytes from one column to the next
  unsigned columns, tiles;  // columns; blocks that they take
};

/// Groups of threads that share a column block: blockDim.x packs of columns, blockDim.y parts of
/// their lines. Combines values[0 … kPack) over threadIdx.y; every thread gets the results.
template <int kPack, class A, class Combine>
__device__ inline void across_parts(A (&values)[kPack], Combine combine) {
  __shared__ A shared[1024 * kPack];
  A* const mine = shared + (threadIdx.y * blockDim.x + threadIdx.x) * kPack;
  __syncthreads();  // earlier results may still be read
#pragma unroll
  for (int i = 0; i < kPack; ++i) mine[i] = values[i];
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
      const A* const other = mine + half * blockDim.x * kPack;
#pragma unroll
      for (int i = 0; i < kPack; ++i) mine[i] = combine(mine[i], other[i]);
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kPack; ++i) values[i] = shared[threadIdx.x * kPack + i];
}

/// Where a thread's columns begin in each array; false if it has none.
template <int kPack, int K>
__device__ inline bool find_columns(const ColumnsOf<K>& params, char* (&at)[K]) {
  const unsigned tile = blockIdx.x % params.tiles;
  const unsigned column = (tile * blockDim.x + threadIdx.x) * kPack;
  long long offsets[K];
  params.outer.rows.offsets(blockIdx.x / params.tiles, offsets);
#pragma unroll
  for (int k = 0; k < K; ++k)
    at[k] = params.outer.array[k].data + offsets[k] + column * params.across[k];
  return column < params.columns;
}

/// Whether lines are taken as columns: their elements are not adjacent, their neighbours are.
template <int K>
bool are_columns(const Lines<K>& lines) {
  return lines.dims > 0 && lines.strides[0][0] < lines.step[0] && lines.sizes[0] >= 8;
}

/// The lines with the roles of elements and innermost neighbours exchanged, to ask for packs.
template <int K>
Lines<K> turned(Lines<K> lines) {
  for (int k = 0; k < K; ++k) std::swap(lines.step[k], lines.strides[k][0]);
  std::swap(lines.length, lines.sizes[0]);
  return lines;
}

/// Calls launch(params, pack, block) for parts of the columns; the kernel has params.tiles blocks
/// for each of params.outer.count groups.
template <int K, class LaunchBody>
void each_columns(const Lines<K>& lines, const DType (&dtypes)[K], LaunchBody&& launch) {
  each_part(lines, [&](const Lines<K>& part) {
    const int pack = std::min(4, pack_of(turned(part), dtypes));
    ColumnsOf<K> params{};
    params.outer = rows_of_lines(part, dtypes, 1);
    for (int k = 0; k < K; ++k) params.across[k] = part.strides[k][0];
    params.columns = static_cast<unsigned>(part.sizes[0]);
    // Few threads across where lines are long, so that more of them share a line.
    unsigned across = part.length <= 256 ? 16 : 8, parts = 1;
    if (pack == 1) across *= 2;
    while (parts * across < 1024 && parts * 8 < part.length) parts *= 2;
    while (parts * across < 256 && across * pack < part.sizes[0]) across *= 2;
    params.tiles = (params.columns + across * pack - 1) / (across * static_cast<unsigned>(pack));
    launch(params, pack, dim3(across, parts));
  });
}

/// The device's exponential; quick where results are rounded to 16 bits.
template <bool kQuick, class C>
__device__ inline C exponential(C x) {
  if constexpr (kQuick) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.44269504f));
    return result;
  } else {
    return math::exp(x);
  }
}

}  // namespace tensora::cuda

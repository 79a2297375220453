#pragma once

// Internal header

#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_mma.cuh"

namespace tensora::cuda {

// Note [Attention on tensor cores]
// A block of four warps has 128 queries (64 of the widest heads), which stay in shared memory; keys
// and values come in tiles, the next ones by cp.async while these are used. A warp has 32 (16) of
// the queries to itself: scores, exponentials and results stay in its registers, in the order in
// which mma leaves its sums. That is also the order in which mma takes its left operand, so the
// exponentials go straight into the product with the values. Only the rows' largest and total are
// exchanged, between the four lanes that share a row.
template <int width>
struct ForwardTile {
  static constexpr int kWarps = 4;
  static constexpr int kRowTiles = width <= 128 ? 2 : 1;  // of 16 rows, per warp
  static constexpr int kRows = kWarps * kRowTiles * 16;
  static constexpr int kKeys = width <= 128 ? 64 : 32;
  static constexpr int kQueryBytes = kRows * width * 2;
  static constexpr int kKeyBytes = kKeys * width * 2;
  static constexpr int kShared = kQueryBytes + 4 * kKeyBytes;
};

template <int width>
struct ForwardState {
  using Tile = ForwardTile<width>;
  float sums[Tile::kRowTiles][width / 8][4];
  float scores[Tile::kRowTiles][Tile::kKeys / 8][4];
  float largest[Tile::kRowTiles][2], total[Tile::kRowTiles][2];
};

template <class T, int width>
__device__ inline void multiply_keys(unsigned query_tile, unsigned key_tile,
                                     ForwardState<width>& state) {
  using Tile = ForwardTile<width>;
  const unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 * Tile::kRowTiles * 16;
#pragma unroll
  for (int m = 0; m < Tile::kRowTiles; ++m)
#pragma unroll
    for (int n = 0; n < Tile::kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) state.scores[m][n][i] = 0;
#pragma unroll
  for (unsigned k = 0; k < width / 16; ++k) {
    unsigned left[Tile::kRowTiles][4];
#pragma unroll
    for (unsigned m = 0; m < Tile::kRowTiles; ++m)
      load_matrices(left[m],
                    query_tile + chunk_at<width>(first + m * 16 + lane % 16, k * 2 + lane / 16));
#pragma unroll
    for (unsigned n = 0; n < Tile::kKeys / 16; ++n) {
      unsigned right[4];
      load_matrices(right, key_tile + chunk_at<width>(n * 16 + lane % 8 + lane / 16 * 8,
                                                      k * 2 + lane / 8 % 2));
#pragma unroll
      for (int m = 0; m < Tile::kRowTiles; ++m) {
        multiply_add<T>(state.scores[m][2 * n], left[m], right[0], right[1]);
        multiply_add<T>(state.scores[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// Hides what is out of bounds or beyond the diagonal; with extras, scores are scaled and masked.
template <bool extras, int width>
__device__ inline void hide_scores(const AttentionCall& call, const HeadPlace& place, int row,
                                   int key, ForwardState<width>& state) {
  using Tile = ForwardTile<width>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < Tile::kRowTiles; ++m)
#pragma unroll
    for (int n = 0; n < Tile::kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int q = row + m * 16 + lane / 4 + i / 2 * 8, k = key + n * 8 + lane % 4 * 2 + i % 2;
        float& score = state.scores[m][n][i];
        if constexpr (extras)
          score = masked_score(call, place, q, k, score);
        else if (k >= place.keys || (call.causal && k > q))
          score = kHidden;
      }
}

// Scores become exponentials; `factor` turns a score into an exponent of 2.
template <int width>
__device__ inline void soften(float factor, ForwardState<width>& state) {
  using Tile = ForwardTile<width>;
#pragma unroll
  for (int m = 0; m < Tile::kRowTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = state.largest[m][half];
#pragma unroll
      for (int n = 0; n < Tile::kKeys / 8; ++n)
        largest =
            fmaxf(largest, fmaxf(state.scores[m][n][2 * half], state.scores[m][n][2 * half + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 2));
      const float base = largest == kHidden ? 0.0f : largest * factor;
      const float shrink = power_of_two(state.largest[m][half] * factor - base);
      state.largest[m][half] = largest;
      float total = 0;
#pragma unroll
      for (int n = 0; n < Tile::kKeys / 8; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          const float e = power_of_two(fmaf(state.scores[m][n][i], factor, -base));
          state.scores[m][n][i] = e;
          total += e;
        }
      state.total[m][half] = state.total[m][half] * shrink + total;  // of this lane's columns
#pragma unroll
      for (int n = 0; n < width / 8; ++n) {
        state.sums[m][n][2 * half] *= shrink;
        state.sums[m][n][2 * half + 1] *= shrink;
      }
    }
}

template <int width>
__device__ inline void drop_out(const AttentionCall& call, const HeadPlace& place, int row, int key,
                                ForwardState<width>& state) {
  using Tile = ForwardTile<width>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const DropoutFactors factors(call, place);
#pragma unroll
  for (int m = 0; m < Tile::kRowTiles; ++m)
#pragma unroll
    for (int n = 0; n < Tile::kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        state.scores[m][n][i] *=
            factors.of(row + m * 16 + lane / 4 + i / 2 * 8, key + n * 8 + lane % 4 * 2 + i % 2);
}

template <class T, int width>
__device__ inline void multiply_values(unsigned value_tile, ForwardState<width>& state) {
  using Tile = ForwardTile<width>;
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned k = 0; k < Tile::kKeys / 16; ++k) {
    unsigned left[Tile::kRowTiles][4];
#pragma unroll
    for (int m = 0; m < Tile::kRowTiles; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const pair = &state.scores[m][2 * k + i / 2][i % 2 * 2];
        left[m][i] = round_pair<T>(pair[0], pair[1]);
      }
#pragma unroll
    for (unsigned n = 0; n < width / 16; ++n) {
      unsigned right[4];
      load_transposed(right, value_tile + chunk_at<width>(k * 16 + lane % 16, n * 2 + lane / 16));
#pragma unroll
      for (int m = 0; m < Tile::kRowTiles; ++m) {
        multiply_add<T>(state.sums[m][2 * n], left[m], right[0], right[1]);
        multiply_add<T>(state.sums[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// Results go through the warp's own rows of the query tile, so that they are stored in chunks.
template <class T, int width>
__device__ inline void store_results(const AttentionCall& call, const HeadPlace& place, int row,
                                     float factor, char* shared, ForwardState<width>& state) {
  using Tile = ForwardTile<width>;
  const unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 * Tile::kRowTiles * 16;
#pragma unroll
  for (int m = 0; m < Tile::kRowTiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = state.total[m][half];
      total += __shfl_xor_sync(kWholeWarp, total, 1);
      total += __shfl_xor_sync(kWholeWarp, total, 2);
      const float inverse = total == 0 ? 0.0f : 1.0f / total;
      const unsigned local = first + m * 16 + half * 8 + lane / 4;
      const int query = row + m * 16 + half * 8 + static_cast<int>(lane / 4);
      if (lane % 4 == 0 && query < place.queries)
        static_cast<float*>(call.logarithms)[line_of(call, place, query)] =
            total == 0 ? kHidden : (state.largest[m][half] * factor + __log2f(total)) / kLog2E;
#pragma unroll
      for (unsigned n = 0; n < width / 8; ++n) {
        const float* const pair = &state.sums[m][n][2 * half];
        *reinterpret_cast<unsigned*>(shared + chunk_at<width>(local, n) + lane % 4 * 4) =
            round_pair<T>(pair[0] * inverse, pair[1] * inverse);
      }
    }
  __syncwarp();
  constexpr unsigned kChunks = width / 8;
  const HeadRows out = rows_of_queries(call.result, place, call.value_size);
#pragma unroll
  for (unsigned step = 0; step < Tile::kRowTiles * 16 * kChunks / 32; ++step) {
    const unsigned local = (step * 32 + lane) / kChunks, chunk = (step * 32 + lane) % kChunks;
    const int query = row + static_cast<int>(local);
    if (query < place.queries && static_cast<int>(chunk) * 8 < call.value_size)
      *reinterpret_cast<uint4*>(const_cast<char*>(out.data) + query * out.row_bytes + chunk * 16) =
          *reinterpret_cast<const uint4*>(shared + chunk_at<width>(first + local, chunk));
  }
}

template <class T, int width, bool extras>
__global__ void __launch_bounds__(128) attention_forward_mma(const AttentionCall call, int tiles) {
  using Tile = ForwardTile<width>;
  extern __shared__ __align__(128) char shared[];
  const auto query_tile = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto key_tile = [&](int i) {
    return query_tile + Tile::kQueryBytes + static_cast<unsigned>(i % 2) * 2 * Tile::kKeyBytes;
  };
  // The last rows first: in causal attention they have the most keys.
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x % tiles)) * Tile::kRows;
  const int64_t number = blockIdx.x / tiles;
  const HeadPlace place =
      head_place(call, number / call.heads, static_cast<int>(number % call.heads));
  if (first >= place.queries) return;
  const HeadRows queries = rows_of_queries(call.query, place, call.head_size);
  const HeadRows keys = rows_of_keys(call.key, place, call.head_size);
  const HeadRows values = rows_of_keys(call.value, place, call.value_size);
  const int row = first + static_cast<int>(threadIdx.x) / 32 * Tile::kRowTiles * 16;
  const int end = call.causal ? min(place.keys, first + Tile::kRows) : place.keys;
  const int steps = (end + Tile::kKeys - 1) / Tile::kKeys;
  const float factor = extras ? 1.0f : static_cast<float>(call.scale) * kLog2E;
  const auto request = [&](int step) {
    request_rows<Tile::kKeys, width, 128>(keys, step * Tile::kKeys, key_tile(step));
    request_rows<Tile::kKeys, width, 128>(values, step * Tile::kKeys,
                                          key_tile(step) + Tile::kKeyBytes);
  };
  request_rows<Tile::kRows, width, 128>(queries, first, query_tile);
  if (steps > 0) request(0);
  close_copies();
  ForwardState<width> state = {};
#pragma unroll
  for (int m = 0; m < Tile::kRowTiles; ++m) state.largest[m][0] = state.largest[m][1] = kHidden;
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<0>();
    __syncthreads();  // all of the tile has arrived, and the other one is no longer read
    if (step + 1 < steps) request(step + 1);
    close_copies();
    const int key = step * Tile::kKeys;
    multiply_keys<T, width>(query_tile, key_tile(step), state);
    if (extras || key + Tile::kKeys > place.keys || (call.causal && key + Tile::kKeys > row + 1))
      hide_scores<extras>(call, place, row, key, state);
    soften(factor, state);
    if (extras && call.dropout.on) drop_out(call, place, row, key, state);
    multiply_values<T, width>(key_tile(step) + Tile::kKeyBytes, state);
  }
  if (steps == 0) {
    wait_for_copies<0>();
    __syncthreads();
  }
  store_results<T, width>(call, place, row, factor, shared, state);
}

template <class T>
void forward_on_tensor_cores(std::string_view op, int device, const AttentionCall& call) {
  const bool extras = has_extras(call);
  const auto launch = [&]<int width>() {
    using Tile = ForwardTile<width>;
    const auto kernel =
        extras ? attention_forward_mma<T, width, true> : attention_forward_mma<T, width, false>;
    allow_shared_memory(device, reinterpret_cast<const void*>(kernel), Tile::kShared);
    const int64_t tiles = (call.queries + Tile::kRows - 1) / Tile::kRows;
    const int64_t blocks = call.sequences * call.heads * tiles;
    check(blocks < (int64_t{1} << 31), op, ": too many tiles for one launch: ", blocks);
    Launch{op, device, Tile::kShared}(kernel, dim3(static_cast<unsigned>(blocks)), dim3(128), call,
                                      static_cast<int>(tiles));
  };
  const int widest = std::max(call.head_size, call.value_size);
  if (widest <= 64)
    launch.template operator()<64>();
  else if (widest <= 128)
    launch.template operator()<128>();
  else
    launch.template operator()<256>();
}

}  // namespace tensora::cuda

#pragma once

// Internal header

#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_mma.cuh"

namespace tensora::cuda {

// Note [Attention backward on tensor cores]
// One kernel in two forms. A block of eight warps has 128 rows, 16 per warp, and walks over tiles
// of columns. From the rows of A and A2 and the columns of B and B2 it computes the tiles
//   S = A B^T and dP = A2 B2^T, from them P and dS, and adds dS B to its first result.
// With queries as rows (A = Q, A2 = g, B = K, B2 = V) that is dQ. With keys as rows (A = K, A2 = V,
// B = Q, B2 = g) the tiles are transposed, the result is dK, and P^T B2 is added to a second, dV.
// In both forms P and dS go from the sums of one mma to the left operand of the next without
// leaving the registers. The scores are computed twice, seven products instead of five, but every
// block has its results to itself: nothing is added atomically, and the same bits come out every
// time. Results are computed 128 columns at a time; wider heads compute P and dS once for each
// part.
template <int width>
struct BackwardTile {
  static constexpr int kThreads = 256;
  static constexpr int kRows = 128;
  static constexpr int kCols = width <= 128 ? 64 : 32;
  static constexpr int kPart = width < 128 ? width : 128;  // columns of the results at a time
  static constexpr int kRowBytes = kRows * width * 2;
  static constexpr int kColBytes = kCols * width * 2;
  static constexpr int kLineBytes = 2 * kCols * 4;  // logarithms and deltas of a tile's queries
  static constexpr int kShared = 2 * kRowBytes + 4 * kColBytes + 2 * kLineBytes;
};

template <int width>
using BackwardScores = float[BackwardTile<width>::kCols / 8][4];

/// sums = rows @ cols^T, a warp's 16 rows against all columns of the tile.
template <class T, int width>
__device__ inline void multiply_rows(unsigned row_tile, unsigned col_tile,
                                     BackwardScores<width>& sums) {
  const unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16;
#pragma unroll
  for (int n = 0; n < BackwardTile<width>::kCols / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
#pragma unroll
  for (unsigned k = 0; k < width / 16; ++k) {
    unsigned left[4];
    load_matrices(left, row_tile + chunk_at<width>(first + lane % 16, k * 2 + lane / 16));
#pragma unroll
    for (unsigned n = 0; n < BackwardTile<width>::kCols / 16; ++n) {
      unsigned right[4];
      load_matrices(right, col_tile + chunk_at<width>(n * 16 + lane % 8 + lane / 16 * 8,
                                                      k * 2 + lane / 8 % 2));
      multiply_add<T>(sums[2 * n], left, right[0], right[1]);
      multiply_add<T>(sums[2 * n + 1], left, right[2], right[3]);
    }
  }
}

/// sums += weights @ cols, for the columns of the result that begin with chunk `chunk`.
template <class T, int width>
__device__ inline void multiply_cols(const BackwardScores<width>& weights, unsigned col_tile,
                                     unsigned chunk,
                                     float (&sums)[BackwardTile<width>::kPart / 8][4]) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned k = 0; k < BackwardTile<width>::kCols / 16; ++k) {
    unsigned left[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const pair = &weights[2 * k + i / 2][i % 2 * 2];
      left[i] = round_pair<T>(pair[0], pair[1]);
    }
#pragma unroll
    for (unsigned n = 0; n < BackwardTile<width>::kPart / 16; ++n) {
      unsigned right[4];
      load_transposed(right,
                      col_tile + chunk_at<width>(k * 16 + lane % 16, chunk + n * 2 + lane / 16));
      multiply_add<T>(sums[2 * n], left, right[0], right[1]);
      multiply_add<T>(sums[2 * n + 1], left, right[2], right[3]);
    }
  }
}

/// What a query contributes: the logarithm of its sum, to the base 2, and its delta. A query
/// without any key, or beyond the last, has an infinite logarithm: its probabilities are 0.
__device__ inline float2 line_values(const AttentionCall& call, const HeadPlace& place, int query) {
  if (query >= place.queries) return {__builtin_huge_valf(), 0.0f};
  const int64_t line = line_of(call, place, query);
  const float logarithm = static_cast<const float*>(call.logarithms)[line];
  return {logarithm == kHidden ? __builtin_huge_valf() : logarithm * kLog2E,
          static_cast<const float*>(call.delta)[line]};
}

/// Scores become P, with its dropout, and the products with V become dS.
template <int width, bool turned, bool extras>
__device__ inline void differentiate(const AttentionCall& call, const HeadPlace& place, int row,
                                     int col, bool edge, const float2 (&own)[2], const float* lines,
                                     BackwardScores<width>& p, BackwardScores<width>& ds) {
  constexpr int kCols = BackwardTile<width>::kCols;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float factor = static_cast<float>(call.scale) * kLog2E;
  const DropoutFactors dropout(call, place);
#pragma unroll
  for (int n = 0; n < kCols / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row + lane / 4 + i / 2 * 8, local = n * 8 + lane % 4 * 2 + i % 2;
      const int query = turned ? col + local : r, key = turned ? r : col + local;
      const float logarithm = turned ? lines[local] : own[i / 2].x;
      const float delta = turned ? lines[kCols + local] : own[i / 2].y;
      float score = extras ? masked_score(call, place, query, key, p[n][i]) : p[n][i] * factor;
      if (!extras && edge && (key >= place.keys || (call.causal && key > query))) score = kHidden;
      const float probability = power_of_two(score - logarithm);
      float kept = 1;
      if constexpr (extras)
        if (call.dropout.on) kept = dropout.of(query, key);
      p[n][i] = probability * kept;
      ds[n][i] = probability * (ds[n][i] * kept - delta);
    }
}

/// Rows of a result, through shared memory so that they are stored in chunks.
template <class T, int width>
__device__ inline void store_part(const HeadRows& out, int row, int part, float factor,
                                  char* shared,
                                  const float (&sums)[BackwardTile<width>::kPart / 8][4]) {
  constexpr unsigned kChunks = BackwardTile<width>::kPart / 8;
  const unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16;
#pragma unroll
  for (unsigned half = 0; half < 2; ++half)
#pragma unroll
    for (unsigned n = 0; n < kChunks; ++n)
      *reinterpret_cast<unsigned*>(shared + chunk_at<width>(first + half * 8 + lane / 4, n) +
                                   lane % 4 * 4) =
          round_pair<T>(sums[n][2 * half] * factor, sums[n][2 * half + 1] * factor);
  __syncwarp();
#pragma unroll
  for (unsigned step = 0; step < 16 * kChunks / 32; ++step) {
    const unsigned local = (step * 32 + lane) / kChunks, chunk = (step * 32 + lane) % kChunks;
    const int r = row + static_cast<int>(local), c = part + static_cast<int>(chunk) * 8;
    if (r < out.count && c < out.width)
      *reinterpret_cast<uint4*>(const_cast<char*>(out.data) + r * out.row_bytes + c * 2) =
          *reinterpret_cast<const uint4*>(shared + chunk_at<width>(first + local, chunk));
  }
  __syncwarp();
}

/// Requests the block's own rows, of A and A2.
template <int width, bool turned>
__device__ inline void request_own(const AttentionCall& call, const HeadPlace& place, int first,
                                   unsigned row_tile) {
  using Tile = BackwardTile<width>;
  request_rows<Tile::kRows, width, 256>(turned ? rows_of_keys(call.key, place, call.head_size)
                                               : rows_of_queries(call.query, place, call.head_size),
                                        first, row_tile);
  request_rows<Tile::kRows, width, 256>(turned ? rows_of_keys(call.value, place, call.value_size)
                                               : rows_of_queries(call.grad, place, call.value_size),
                                        first, row_tile + Tile::kRowBytes);
}

/// Requests a tile of columns, of B and B2; the logarithms and deltas of queries come with them.
template <int width, bool turned>
__device__ inline void request_columns(const AttentionCall& call, const HeadPlace& at, int col,
                                       unsigned col_tile, float* lines) {
  using Tile = BackwardTile<width>;
  const HeadRows b = turned ? rows_of_queries(call.query, at, call.head_size)
                            : rows_of_keys(call.key, at, call.head_size);
  const HeadRows b2 = turned ? rows_of_queries(call.grad, at, call.value_size)
                             : rows_of_keys(call.value, at, call.value_size);
  request_rows<Tile::kCols, width, 256>(b, col, col_tile);
  request_rows<Tile::kCols, width, 256>(b2, col, col_tile + Tile::kColBytes);
  if (turned && threadIdx.x < Tile::kCols) {
    const float2 values = line_values(call, at, col + static_cast<int>(threadIdx.x));
    lines[threadIdx.x] = values.x;
    lines[Tile::kCols + threadIdx.x] = values.y;
  }
}

/// One of `tiles` of rows of one (sequence, head or group), and one of `parts` of the columns.
template <class T, int width, bool turned, bool extras>
__global__ void __launch_bounds__(256, 1)
    attention_backward_mma(const AttentionCall call, int tiles, int parts) {
  using Tile = BackwardTile<width>;
  extern __shared__ __align__(128) char shared[];
  const auto row_tile = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto col_tile = [&](int i) {
    return row_tile + 2 * Tile::kRowBytes + static_cast<unsigned>(i % 2) * 2 * Tile::kColBytes;
  };
  const auto lines_of = [&](int i) {
    return reinterpret_cast<float*>(shared + 2 * Tile::kRowBytes + 4 * Tile::kColBytes +
                                    i % 2 * Tile::kLineBytes);
  };
  const int part = static_cast<int>(blockIdx.x % parts) * Tile::kPart;
  const int tile = static_cast<int>(blockIdx.x / parts % tiles);
  // Rows with the most columns first, for causal attention: the last queries, the first keys.
  const int first = (turned ? tile : tiles - 1 - tile) * Tile::kRows;
  const int64_t number = blockIdx.x / parts / tiles;
  const int per_group = call.heads / call.groups, owners = turned ? call.groups : call.heads;
  const int owner = static_cast<int>(number % owners);
  HeadPlace place = head_place(call, number / owners, turned ? owner * per_group : owner);
  if (first >= (turned ? place.keys : place.queries)) return;
  const int whole = turned ? place.queries : place.keys;
  const int begin = turned && call.causal ? first / Tile::kCols : 0;
  const int end = !turned && call.causal ? min(whole, first + Tile::kRows) : whole;
  const int per_head = max(0, (end + Tile::kCols - 1) / Tile::kCols - begin);
  const int steps = per_head * (turned ? per_group : 1);
  const auto request = [&](int step) {
    HeadPlace at = place;
    if (turned) at.head = owner * per_group + step / per_head;
    const int col = (begin + step % per_head) * Tile::kCols;
    request_columns<width, turned>(call, at, col, col_tile(step), lines_of(step));
  };
  request_own<width, turned>(call, place, first, row_tile);
  if (steps > 0) request(0);
  close_copies();
  const int row = first + static_cast<int>(threadIdx.x) / 32 * 16;
  float2 own[2] = {};
  if constexpr (!turned)
    for (int half = 0; half < 2; ++half)
      own[half] = line_values(call, place, row + half * 8 + static_cast<int>(threadIdx.x) % 32 / 4);
  float sums[Tile::kPart / 8][4] = {}, sums2[turned ? Tile::kPart / 8 : 1][4] = {};
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<0>();
    __syncthreads();  // all of the tile has arrived, and the other one is no longer read
    if (step + 1 < steps) request(step + 1);
    close_copies();
    if constexpr (turned) place.head = owner * per_group + step / per_head;
    const int col = (begin + step % per_head) * Tile::kCols;
    const unsigned b = col_tile(step), b2 = b + Tile::kColBytes;
    BackwardScores<width> p, ds;
    multiply_rows<T, width>(row_tile, b, p);
    multiply_rows<T, width>(row_tile + Tile::kRowBytes, b2, ds);
    const bool edge = (turned ? first + Tile::kRows : col + Tile::kCols) > place.keys ||
                      (call.causal && (turned ? row + 16 > col : col + Tile::kCols > row));
    differentiate<width, turned, extras>(call, place, row, col, edge, own, lines_of(step), p, ds);
    multiply_cols<T, width>(ds, b, static_cast<unsigned>(part / 8), sums);
    if constexpr (turned) multiply_cols<T, width>(p, b2, static_cast<unsigned>(part / 8), sums2);
  }
  wait_for_copies<0>();
  __syncthreads();
  const Array4& out = turned ? call.grad_key : call.grad_query;
  store_part<T, width>(turned ? rows_of_keys(out, place, call.head_size)
                              : rows_of_queries(out, place, call.head_size),
                       row, part, static_cast<float>(call.scale), shared, sums);
  if constexpr (turned)
    store_part<T, width>(rows_of_keys(call.grad_value, place, call.value_size), row, part, 1.0f,
                         shared, sums2);
}

template <class T, int width, bool turned>
void launch_backward(std::string_view op, int device, const AttentionCall& call) {
  using Tile = BackwardTile<width>;
  const auto kernel = has_extras(call) ? attention_backward_mma<T, width, turned, true>
                                       : attention_backward_mma<T, width, turned, false>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), Tile::kShared);
  const int64_t rows = turned ? call.keys : call.queries;
  const int64_t tiles = (rows + Tile::kRows - 1) / Tile::kRows;
  const int widest = turned ? std::max(call.head_size, call.value_size) : call.head_size;
  const int parts = (widest + Tile::kPart - 1) / Tile::kPart;
  const int64_t blocks = call.sequences * (turned ? call.groups : call.heads) * tiles * parts;
  check(blocks < (int64_t{1} << 31), op, ": too many tiles for one launch: ", blocks);
  Launch{op, device, Tile::kShared}(kernel, dim3(static_cast<unsigned>(blocks)),
                                    dim3(Tile::kThreads), call, static_cast<int>(tiles), parts);
}

template <class T>
void backward_on_tensor_cores(std::string_view op, int device, const AttentionCall& call) {
  const auto launch = [&]<int width>() {
    launch_backward<T, width, false>(op, device, call);
    launch_backward<T, width, true>(op, device, call);
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

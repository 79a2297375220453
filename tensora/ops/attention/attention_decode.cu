#include <algorithm>
#include <limits>

#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_mma.cuh"

// Note [Attention of few queries]
// With one query per sequence everything is reading keys and values once. A block has one group of
// heads and a part of the keys: the queries of all heads that share these keys are the rows of one
// tile of 16, so that grouped heads cost no more reading. Its four warps take 16 keys of each tile
// each and have a softmax of their own; several tiles are in flight. At the end the warps' results
// are brought to a common largest score and added, and so are those of the parts, by a second
// kernel, if there is more than one. The number of parts depends on sizes alone: see best_parts.

namespace tensora::cuda {
namespace {

constexpr int kThreadsOfBlock = 128, kTileRows = 16;

template <int width, int stages>
struct DecodeTile {
  static constexpr int kKeys = 64, kStages = stages;
  static constexpr int kKeyBytes = kKeys * width * 2;
  static constexpr int kQueryBytes = kTileRows * width * 2;
  static constexpr int kShared = kQueryBytes + 2 * kStages * kKeyBytes;
};

/// The parts of the results: per part and line `width` sums, the largest score (to the base 2) and
/// the total.
struct Parts {
  float *sums, *largest, *totals;
  int count;
};

// Row r of the tile is query r % queries of the group's head r / queries.
struct DecodeRows {
  int queries, rows, first_head;
  __device__ int head(int row) const { return first_head + row / queries; }
  __device__ int query(int row) const { return row % queries; }
};

template <int width>
__device__ inline void request_queries(const AttentionCall& call, int64_t batch,
                                       const DecodeRows& rows, unsigned tile) {
  constexpr int kChunks = width / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kChunks; i += kThreadsOfBlock) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool inside = row < rows.rows && chunk * 8 < call.head_size;
    const int64_t at = inside ? batch * call.query.strides[0] +
                                    rows.head(row) * call.query.strides[1] +
                                    rows.query(row) * call.query.strides[2] + chunk * 8
                              : 0;
    copy_chunk(tile + chunk_at<width>(static_cast<unsigned>(row), static_cast<unsigned>(chunk)),
               call.query.data + at * 2, inside);
  }
}

template <int width>
struct DecodeState {
  float sums[width / 8][4];
  float largest[2], total[2];
  // The queries as the left factor, if registers suffice.
  static constexpr bool kHoldsQueries = width <= 128;
  unsigned queries[kHoldsQueries ? width / 16 : 1][4];

  __device__ void load_query(unsigned tile, unsigned k) {
    const unsigned lane = threadIdx.x % 32;
    load_matrices(queries[kHoldsQueries ? k : 0],
                  tile + chunk_at<width>(lane % 16, k * 2 + lane / 16));
  }
};

// A warp's 16 keys of one tile.
template <class T, int width, int key_bytes>
__device__ inline void attend_keys(const AttentionCall& call, HeadPlace place,
                                   const DecodeRows& rows, unsigned query_tile, unsigned key_tile,
                                   int key, DecodeState<width>& state) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float scores[2][4] = {};
#pragma unroll
  for (unsigned k = 0; k < width / 16; ++k) {
    unsigned right[4];
    if constexpr (!state.kHoldsQueries) state.load_query(query_tile, k);
    const auto& left = state.queries[state.kHoldsQueries ? k : 0];
    load_matrices(right, key_tile + chunk_at<width>(warp * 16 + lane % 8 + lane / 16 * 8,
                                                    k * 2 + lane / 8 % 2));
    multiply_add<T>(scores[0], left, right[0], right[1]);
    multiply_add<T>(scores[1], left, right[2], right[3]);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = static_cast<int>(lane / 4) + half * 8;
    place.head = rows.head(row);
    float largest = state.largest[half];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][half * 2 + i % 2];
      const int own =
          key + static_cast<int>(warp) * 16 + i / 2 * 8 + static_cast<int>(lane % 4) * 2 + i % 2;
      score = row < rows.rows ? masked_score(call, place, rows.query(row), own, score) : kHidden;
      largest = fmaxf(largest, score);
    }
    largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 2));
    const float base = largest == kHidden ? 0.0f : largest;
    const float shrink = power_of_two(state.largest[half] - base);
    state.largest[half] = largest;
    float total = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][half * 2 + i % 2];
      score = power_of_two(score - base);
      total += score;
    }
    state.total[half] = state.total[half] * shrink + total;
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      state.sums[n][2 * half] *= shrink;
      state.sums[n][2 * half + 1] *= shrink;
    }
  }
  unsigned left[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    left[i] = round_pair<T>(scores[i / 2][i % 2 * 2], scores[i / 2][i % 2 * 2 + 1]);
  const unsigned value_tile = key_tile + key_bytes;
#pragma unroll
  for (unsigned n = 0; n < width / 16; ++n) {
    unsigned right[4];
    load_transposed(right, value_tile + chunk_at<width>(warp * 16 + lane % 16, n * 2 + lane / 16));
    multiply_add<T>(state.sums[2 * n], left, right[0], right[1]);
    multiply_add<T>(state.sums[2 * n + 1], left, right[2], right[3]);
  }
}

// The four warps' results, brought together; every thread then has some columns of all rows.
template <class T, int width>
__device__ inline void join_warps(const AttentionCall& call, int64_t batch, const DecodeRows& rows,
                                  const Parts& parts, int part, char* shared,
                                  DecodeState<width>& state) {
  constexpr int kPitch = width + 4;
  float* const all = reinterpret_cast<float*>(shared);  // warp, row, column
  __shared__ float largest[4][kTileRows], totals[4][kTileRows];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    float total = state.total[half];
    total += __shfl_xor_sync(kWholeWarp, total, 1);
    total += __shfl_xor_sync(kWholeWarp, total, 2);
    if (lane % 4 == 0) {
      largest[warp][row] = state.largest[half];
      totals[warp][row] = total;
    }
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        all[(warp * kTileRows + row) * kPitch + n * 8 + lane % 4 * 2 + i] =
            state.sums[n][2 * half + i];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < rows.rows * width; i += kThreadsOfBlock) {
    const int row = i / width, col = i % width;
    float most = kHidden, total = 0, sum = 0;
    for (int w = 0; w < 4; ++w) most = fmaxf(most, largest[w][row]);
    const float base = most == kHidden ? 0.0f : most;
    for (int w = 0; w < 4; ++w) {
      const float factor = power_of_two(largest[w][row] - base);
      total += totals[w][row] * factor;
      sum += all[(w * kTileRows + row) * kPitch + col] * factor;
    }
    const int64_t line = (batch * call.heads + rows.head(row)) * call.queries + rows.query(row);
    if (parts.count > 1) {
      const int64_t lines = call.sequences * call.heads * call.queries;
      parts.sums[(part * lines + line) * width + col] = sum;
      if (col == 0) {
        parts.largest[part * lines + line] = most;
        parts.totals[part * lines + line] = total;
      }
      continue;
    }
    if (col == 0)
      static_cast<float*>(call.logarithms)[line] =
          total == 0 ? kHidden : (most + __log2f(total)) / kLog2E;
    const int64_t at = batch * call.result.strides[0] + rows.head(row) * call.result.strides[1] +
                       rows.query(row) * call.result.strides[2] + col;
    if (col < call.value_size)
      reinterpret_cast<T*>(call.result.data)[at] = store_value<T>(total == 0 ? 0 : sum / total);
  }
}

template <class T, int width, int stages>
__global__ void __launch_bounds__(kThreadsOfBlock)
    attention_decode(const AttentionCall call, const Parts parts, int part_keys) {
  using Tile = DecodeTile<width, stages>;
  extern __shared__ __align__(128) char shared[];
  const auto query_tile = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const auto key_tile = [&](int step) {
    return query_tile + Tile::kQueryBytes +
           static_cast<unsigned>(step % Tile::kStages) * 2 * Tile::kKeyBytes;
  };
  const int part = static_cast<int>(blockIdx.x % parts.count);
  const int64_t number = blockIdx.x / parts.count;
  const int per_group = call.heads / call.groups, group = static_cast<int>(number % call.groups);
  const int64_t batch = number / call.groups;
  const HeadPlace place = head_place(call, batch, group * per_group);
  const DecodeRows rows{place.queries, place.queries * per_group, group * per_group};
  const HeadRows keys = rows_of_keys(call.key, place, call.head_size);
  const HeadRows values = rows_of_keys(call.value, place, call.value_size);
  const int begin = part * part_keys, end = min(begin + part_keys, place.keys);
  const int steps = max(0, (end - begin + Tile::kKeys - 1) / Tile::kKeys);
  const auto request = [&](int step) {
    if (step < steps) {
      const int key = begin + step * Tile::kKeys;
      request_rows<Tile::kKeys, width, kThreadsOfBlock>(keys, key, key_tile(step));
      request_rows<Tile::kKeys, width, kThreadsOfBlock>(values, key,
                                                        key_tile(step) + Tile::kKeyBytes);
    }
    close_copies();
  };
  request_queries<width>(call, batch, rows, query_tile);
  for (int step = 0; step < Tile::kStages - 1; ++step) request(step);
  DecodeState<width> state = {};
  state.largest[0] = state.largest[1] = kHidden;
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<Tile::kStages - 2>();
    __syncthreads();  // the tile has arrived, and the oldest one is no longer read
    if (state.kHoldsQueries && step == 0) {
#pragma unroll
      for (unsigned k = 0; k < width / 16; ++k) state.load_query(query_tile, k);
    }
    request(step + Tile::kStages - 1);
    attend_keys<T, width, Tile::kKeyBytes>(call, place, rows, query_tile, key_tile(step),
                                           begin + step * Tile::kKeys, state);
  }
  wait_for_copies<0>();
  __syncthreads();
  join_warps<T, width>(call, batch, rows, parts, part, shared, state);
}

constexpr int kMostParts = kThreadsOfBlock;  // a thread has one

// A block per line brings its parts together.
template <class T>
__global__ void __launch_bounds__(kThreadsOfBlock)
    join_parts(const AttentionCall call, const Parts parts, int width, int64_t lines) {
  __shared__ float factors[kMostParts], largest_of[kThreadsOfBlock / 32];
  const int64_t line = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const bool has_part = thread < parts.count;
  const float largest = has_part ? parts.largest[thread * lines + line] : kHidden;
  float most = largest;
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    most = fmaxf(most, __shfl_xor_sync(kWholeWarp, most, step));
  if (thread % 32 == 0) largest_of[thread / 32] = most;
  __syncthreads();
  for (const float other : largest_of) most = fmaxf(most, other);
  factors[thread] = power_of_two(largest - (most == kHidden ? 0.0f : most));
  __syncthreads();
  float total = 0;
#pragma unroll 8
  for (int part = 0; part < parts.count; ++part)
    total += parts.totals[part * lines + line] * factors[part];
  if (thread == 0)
    static_cast<float*>(call.logarithms)[line] =
        total == 0 ? kHidden : (most + __log2f(total)) / kLog2E;
  const int64_t query = line % call.queries, head = line / call.queries % call.heads,
                batch = line / call.queries / call.heads;
  const int64_t at = batch * call.result.strides[0] + head * call.result.strides[1] +
                     query * call.result.strides[2];
  for (int col = thread; col < call.value_size; col += kThreadsOfBlock) {
    float sum = 0;
#pragma unroll 8
    for (int part = 0; part < parts.count; ++part)
      sum += parts.sums[(part * lines + line) * width + col] * factors[part];
    reinterpret_cast<T*>(call.result.data)[at + col] = store_value<T>(total == 0 ? 0 : sum / total);
  }
}

// In how many parts the keys are read, `tiles` in all, by the blocks of `pairs` sequences and
// groups on `processors`, each of which holds `at_once` blocks. The times are multiples of what a
// tile takes when the memory is busy: a block cannot take its tiles faster than `kAlone` of them,
// and those of one processor share its part of the memory's speed. A block needs time to begin, and
// parts have to be joined.
int64_t best_parts(int64_t pairs, int64_t tiles, int64_t processors, int64_t at_once) {
  constexpr double kAlone = 1.7, kJoin = 4;
  constexpr int64_t kBegin = 3, kLeastTiles = 4;
  int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  const int64_t most = std::clamp<int64_t>(tiles / kLeastTiles, 1, kMostParts);
  for (int64_t count = 1; count <= most; ++count) {
    const int64_t blocks = (pairs * count + processors - 1) / processors;
    const int64_t turns = (blocks + at_once - 1) / at_once;
    const double tile = std::max(kAlone, static_cast<double>(std::min(blocks, at_once)));
    const double time = static_cast<double>(turns * ((tiles + count - 1) / count + kBegin)) * tile +
                        (count > 1 ? kJoin : 0);
    if (time >= least) continue;
    least = time;
    best = count;
  }
  return best;
}

template <class T, int width, int stages>
bool launch_decode(std::string_view op, int device, const AttentionCall& call) {
  using Tile = DecodeTile<width, stages>;
  if (most_shared_memory(device) < Tile::kShared + 1024) return false;
  const int64_t pairs = call.sequences * call.groups;
  const int64_t tiles = (call.keys + Tile::kKeys - 1) / Tile::kKeys;
  // A block's shared memory, and the kilobyte that the system takes with it.
  const int64_t per_processor = (most_shared_memory(device) + 1024) / (Tile::kShared + 1024);
  int64_t count = best_parts(pairs, tiles, device_info(device).multiprocessors, per_processor);
  const int64_t part_keys = (tiles + count - 1) / count * Tile::kKeys;
  count = std::max<int64_t>((call.keys + part_keys - 1) / std::max<int64_t>(part_keys, 1), 1);
  const int64_t lines = call.sequences * call.heads * call.queries;
  const Scratch memory(
      device,
      static_cast<size_t>(std::max<int64_t>(count == 1 ? 0 : count * lines, 1) * (width + 2) * 4));
  float* const sums = reinterpret_cast<float*>(memory.data());
  const Parts parts{sums, sums + count * lines * width, sums + count * lines * (width + 1),
                    static_cast<int>(count)};
  const auto kernel = attention_decode<T, width, stages>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), Tile::kShared);
  check(pairs * count < (int64_t{1} << 31), op, ": too many tiles for one launch: ", pairs * count);
  Launch{op, device, Tile::kShared}(kernel, dim3(static_cast<unsigned>(pairs * count)),
                                    dim3(kThreadsOfBlock), call, parts,
                                    static_cast<int>(part_keys));
  if (count == 1) return true;
  Launch{op, device}(join_parts<T>, dim3(static_cast<unsigned>(lines)), dim3(kThreadsOfBlock), call,
                     parts, width, lines);
  return true;
}

template <class T>
bool decode(std::string_view op, int device, const AttentionCall& call) {
  const int widest = std::max(call.head_size, call.value_size);
  if (widest <= 64) return launch_decode<T, 64, 3>(op, device, call);
  if (widest <= 128) return launch_decode<T, 128, 3>(op, device, call);
  return launch_decode<T, 256, 2>(op, device, call);
}

}  // namespace

bool forward_of_few_queries(std::string_view op, int device, const AttentionCall& call) {
  const int64_t rows = call.queries * (call.heads / call.groups);
  if (rows > kTileRows || call.starts_q || call.dropout.on) return false;
  return call.query.element == Element::bfloat16 ? decode<BFloat16>(op, device, call)
                                                 : decode<Half>(op, device, call);
}

}  // namespace tensora::cuda

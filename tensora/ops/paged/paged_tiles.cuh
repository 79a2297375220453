#pragma once

// Internal header
// Keys and values of a paged cache, and what both kernels on tensor cores do with them.

#include "tensora/ops/attention/attention_mma.cuh"
#include "tensora/ops/paged/paged_attention_call.h"
#include "tensora/ops/quant/q8_0.h"

namespace tensora::cuda {

inline constexpr int kPagedThreads = 128, kPagedKeys = 64;

/// One sequence of a call and the head of the cache that is read.
struct PagedPlace {
  int queries, first_query, length, group;
  const int* blocks;

  __device__ PagedPlace(const PagedCall& call, int sequence, int head)
      : queries(call.starts[sequence + 1] - call.starts[sequence]),
        first_query(call.starts[sequence]),
        length(call.lengths[sequence]),
        group(head),
        blocks(call.table + int64_t{sequence} * call.blocks_per_sequence) {
    // What lies beyond the bounds was not promised to be there.
    length = min(length, call.blocks_per_sequence * call.block_size);
  }
  /// The row of a position in the cache, in rows of `size` numbers.
  __device__ int64_t row(const PagedCall& call, int position) const {
    const int block =
        call.block_shift >= 0 ? position >> call.block_shift : position / call.block_size;
    const int place = position - block * call.block_size;
    return (int64_t{blocks[block]} * call.groups + group) * call.block_size + place;
  }
  __device__ int64_t row_by_shift(const PagedCall& call, int position) const {
    const int64_t block = blocks[position >> call.block_shift];
    return ((block * call.groups + group) << call.block_shift) + (position & (call.block_size - 1));
  }
  __device__ int position(int query) const { return length - queries + query; }
  /// The first position that queries from `query` on see.
  __device__ int first_seen(const PagedCall& call, int query) const {
    return call.window > 0 ? max(position(query) - call.window + 1, 0) : 0;
  }
};

/// The sequence that a token is a query of, or -1.
__device__ inline int sequence_of(const PagedCall& call, int token) {
  const auto has = [&](int s) { return call.starts[s] <= token && token < call.starts[s + 1]; };
  if (token < call.sequences && has(token)) return token;  // one query of each
  int low = 0, high = call.sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (call.starts[middle] <= token ? low : high) = middle;
  }
  return has(low) ? low : -1;
}

/// A number of a cache.
__device__ inline float cached_number(const char* cache, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::float32:
      return reinterpret_cast<const float*>(cache)[i];
    case DType::float16:
      return static_cast<float>(reinterpret_cast<const Half*>(cache)[i]);
    case DType::bfloat16:
      return static_cast<float>(reinterpret_cast<const BFloat16*>(cache)[i]);
    case DType::float8_e4m3fn:
      return static_cast<float>(reinterpret_cast<const Float8E4M3*>(cache)[i]);
    default:
      return reinterpret_cast<const BlockQ8_0*>(cache)[i / 32].number(static_cast<int>(i % 32));
  }
}

/// `count` numbers of type From, which follow each other in `words`.
template <class From, int count, class Words>
__device__ inline void widen(const Words& words, float* to) {
  static_assert(sizeof(Words) == count * sizeof(From));
#pragma unroll
  for (int i = 0; i < count; ++i)
    to[i] = static_cast<float>(reinterpret_cast<const From*>(&words)[i]);
}

/// Eight numbers of a cache as 16-bit ones; `first` is a multiple of eight.
template <class T>
__device__ inline uint4 converted_chunk(const char* cache, DType dtype, int64_t first) {
  float numbers[8];
  if (dtype == DType::q8_0) {
    const auto& block = reinterpret_cast<const BlockQ8_0*>(cache)[first / 32];
    const auto* const pairs = reinterpret_cast<const unsigned short*>(block.q + first % 32);
    const ushort4 words = {pairs[0], pairs[1], pairs[2], pairs[3]};
    widen<signed char, 8>(words, numbers);
    const auto scale = static_cast<float>(block.scale);
#pragma unroll
    for (float& number : numbers) number *= scale;
  } else if (dtype == DType::float8_e4m3fn) {
    widen<Float8E4M3, 8>(*reinterpret_cast<const uint2*>(cache + first), numbers);
  } else if (dtype == DType::float32) {
    const auto* const fours = reinterpret_cast<const float4*>(cache) + first / 4;
    widen<float, 4>(fours[0], numbers);
    widen<float, 4>(fours[1], numbers + 4);
  } else {
    const auto words = reinterpret_cast<const uint4*>(cache)[first / 8];
    if (dtype == DType::float16)
      widen<Half, 8>(words, numbers);
    else
      widen<BFloat16, 8>(words, numbers);
  }
  return {round_pair<T>(numbers[0], numbers[1]), round_pair<T>(numbers[2], numbers[3]),
          round_pair<T>(numbers[4], numbers[5]), round_pair<T>(numbers[6], numbers[7])};
}
template <class T>
__device__ inline void convert_chunk(unsigned to, const char* cache, DType dtype, int64_t first,
                                     bool inside) {
  const uint4 words = inside ? converted_chunk<T>(cache, dtype, first) : uint4{};
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
}

/// What a cache may be: numbers of the queries' dtype, which are copied as they are, in blocks
/// whose size is a power of two; or any.
enum class PagedCache : uint8_t { plain, any };
template <class T>
__host__ __device__ inline bool is_16_bits_of(DType dtype) {
  return dtype == (is_bfloat16_type<T> ? DType::bfloat16 : DType::float16);
}

/// Requests keys and values of positions from `first` on; those from `end` on become zero. All
/// block numbers are fetched before the first is used.
template <class T, int width, PagedCache cache = PagedCache::any>
__device__ inline void request_keys(const PagedCall& call, const PagedPlace& place, int first,
                                    int end, unsigned tile) {
  constexpr int kChunks = width / 8, kStep = kPagedThreads / kChunks, kRows = kPagedKeys / kStep;
  constexpr unsigned kValues = kPagedKeys * width * 2;
  const int chunk = static_cast<int>(threadIdx.x) % kChunks;
  const int row = static_cast<int>(threadIdx.x) / kChunks;
  const bool as_it_is = cache == PagedCache::plain || is_16_bits_of<T>(call.cache_dtype);
  int64_t rows[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int position = first + row + i * kStep;
    const auto found = [&] {
      return cache == PagedCache::plain ? place.row_by_shift(call, position)
                                        : place.row(call, position);
    };
    rows[i] = position < end && chunk * 8 < call.size ? found() : -1;
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const bool inside = rows[i] >= 0;
    const int64_t at = inside ? rows[i] * call.size + chunk * 8 : 0;
    const unsigned to = tile + chunk_at<width>(static_cast<unsigned>(row + i * kStep),
                                               static_cast<unsigned>(chunk));
    if (as_it_is) {
      copy_chunk(to, call.keys + at * 2, inside);
      copy_chunk(to + kValues, call.values + at * 2, inside);
    } else {
      convert_chunk<T>(to, call.keys, call.cache_dtype, at, inside);
      convert_chunk<T>(to + kValues, call.values, call.cache_dtype, at, inside);
    }
  }
}

/// Rows of queries: `row_of(r)` is the place of row r in T H D, or -1.
template <class T, int width, int rows, class RowOf>
__device__ inline void request_queries(const PagedCall& call, unsigned tile, RowOf&& row_of) {
  constexpr int kChunks = width / 8;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < rows * kChunks; i += kPagedThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const int64_t from = row_of(row);
    const bool inside = from >= 0 && chunk * 8 < call.size;
    copy_chunk(tile + chunk_at<width>(static_cast<unsigned>(row), static_cast<unsigned>(chunk)),
               call.query + (inside ? (from * call.size + chunk * 8) * 2 : 0), inside);
  }
}

/// A warp's 16 rows of queries: sums of values, and the largest score and total of rows lane / 4
/// and 8 more.
template <int width>
struct PagedState {
  float sums[width / 8][4] = {};
  float largest[2] = {kHidden, kHidden}, total[2] = {};
};

// Scores bounded by the cap, to the base 2. One branch for all of them: few models have a cap, and
// code that is jumped over is read all the same.
template <int count>
__device__ inline void cap_scores(const PagedCall& call, float (&scores)[count][4]) {
#pragma unroll
  for (float(&four)[4] : scores)
#pragma unroll
    for (float& score : four)
      score = call.softcap * kLog2E * tanhf(score * call.scale / call.softcap);
}

/// Attends to 16 `blocks` keys of a tile. `position[half]` is where the row's query stands; it sees
/// keys from `lowest[half]` on.
template <class T, int width, int blocks>
__device__ inline void attend(const PagedCall& call, unsigned queries, unsigned keys, int key_row,
                              int first_key, const int (&position)[2], const int (&lowest)[2],
                              PagedState<width>& state) {
  const unsigned lane = threadIdx.x % 32;
  const auto first_row = static_cast<unsigned>(key_row);
  float scores[2 * blocks][4] = {};
#pragma unroll
  for (unsigned k = 0; k < width / 16; ++k) {
    unsigned left[4];
    load_matrices(left, queries + chunk_at<width>(lane % 16, k * 2 + lane / 16));
#pragma unroll
    for (unsigned b = 0; b < blocks; ++b) {
      unsigned right[4];
      load_matrices(right, keys + chunk_at<width>(first_row + b * 16 + lane % 8 + lane / 16 * 8,
                                                  k * 2 + lane / 8 % 2));
      multiply_add<T>(scores[2 * b], left, right[0], right[1]);
      multiply_add<T>(scores[2 * b + 1], left, right[2], right[3]);
    }
  }
  if (call.softcap > 0) cap_scores(call, scores);
  const float scale = call.softcap > 0 ? 1.0f : call.scale;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = state.largest[half];
#pragma unroll
    for (int i = 0; i < 4 * blocks; ++i) {
      float& score = scores[i / 2][half * 2 + i % 2];
      const int key = first_key + i / 2 * 8 + static_cast<int>(lane % 4) * 2 + i % 2;
      score *= scale;
      if (key > position[half] || key < lowest[half]) score = kHidden;
      largest = fmaxf(largest, score);
    }
    largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kWholeWarp, largest, 2));
    const float base = largest == kHidden ? 0.0f : largest;
    const float shrink = power_of_two(state.largest[half] - base);
    state.largest[half] = largest;
    float total = 0;
#pragma unroll
    for (int i = 0; i < 4 * blocks; ++i) {
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
  const unsigned values = keys + kPagedKeys * width * 2;
#pragma unroll
  for (unsigned b = 0; b < blocks; ++b) {
    unsigned left[4];
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
      left[i] =
          round_pair<T>(scores[2 * b + i / 2][i % 2 * 2], scores[2 * b + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (unsigned n = 0; n < width / 16; ++n) {
      unsigned right[4];
      load_transposed(right,
                      values + chunk_at<width>(first_row + b * 16 + lane % 16, n * 2 + lane / 16));
      multiply_add<T>(state.sums[2 * n], left, right[0], right[1]);
      multiply_add<T>(state.sums[2 * n + 1], left, right[2], right[3]);
    }
  }
}

}  // namespace tensora::cuda

#pragma once

// Rows that are transformed, not only reduced: a group of threads, a warp or a block, reads a row
// once into its registers, passes over it as often as it likes, and writes a row of results. A
// thread holds packs of kPack adjacent elements: 8 where all elements are of 16 bits, 4 where some
// are of 32, and 1 where rows are strided, unaligned or of double. So an access has up to 16 bytes,
// and adjacent threads access adjacent packs.

#include <algorithm>

#include "tensora/backend/cuda/loops/host_walk.h"
#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/loops/reduce_params.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/norm/lines.h"

namespace tensora::cuda {

inline constexpr unsigned kWarpThreads = 32;

/// The floating dtypes that arrays of rows in packs of kPack elements have.
template <int kPack, class Body>
__device__ inline void visit_row_dtype(DType dtype, Body&& body) {
  if (dtype == DType::float16)
    body.template operator()<Half>();
  else if (dtype == DType::bfloat16)
    body.template operator()<BFloat16>();
  else if constexpr (kPack == 1) {
    if (dtype == DType::float64)
      body.template operator()<double>();
    else
      body.template operator()<float>();
  } else if constexpr (kPack == 4)
    body.template operator()<float>();
}

/// One array of a kernel over rows.
struct RowArray {
  char* data;
  long long step;  // bytes from one element of a row to the next
  DType dtype;
};

/// Row-wise arrays; array 0 is the output.
template <int K>
struct RowsOf {
  RowArray array[K];
  WideWalk<K> rows;
  unsigned count;    // rows
  long long length;  // of a row
};

/// kPack elements from position `at` of a row on.
template <class T, int kPack, class C>
__device__ inline void load_elements(const char* row, long long step, long long at,
                                     C (&to)[kPack]) {
  if constexpr (kPack == 1)
    to[0] = load_value<C>(*reinterpret_cast<const T*>(row + at * step));
  else
    load_pack<T>(row + at * static_cast<long long>(sizeof(T)), to);
}
template <class T, int kPack, class C>
__device__ inline void store_elements(char* row, long long step, long long at,
                                      const C (&from)[kPack]) {
  if constexpr (kPack == 1)
    *reinterpret_cast<T*>(row + at * step) = store_value<T>(from[0]);
  else
    store_pack<T>(row + at * static_cast<long long>(sizeof(T)), from);
}

/// How a group of kGroup threads holds a row of up to kItems * kGroup elements.
template <class C, int kItemsPerThread, int kPackElements, unsigned kGroupThreads>
struct HeldRow {
  using Value = C;
  static constexpr int kPack = kPackElements, kPacks = kItemsPerThread / kPackElements;
  static constexpr unsigned kGroup = kGroupThreads;
  static constexpr int kCapacity = kItemsPerThread * static_cast<int>(kGroupThreads);
  static_assert(kItemsPerThread % kPackElements == 0);
  C values[kPacks][kPack];

  /// The position of this thread's pack p in the row.
  __device__ static int position(int p, unsigned lane) {
    return (p * static_cast<int>(kGroup) + static_cast<int>(lane)) * kPack;
  }
  /// Beyond the end of the row the values are `missing`.
  __device__ void load(const char* row, const RowArray& array, unsigned lane, int length,
                       C missing) {
    visit_row_dtype<kPack>(array.dtype, [&]<class T>() {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
#pragma unroll
        for (int i = 0; i < kPack; ++i) values[p][i] = missing;
        if (position(p, lane) < length)
          load_elements<T>(row, array.step, position(p, lane), values[p]);
      }
    });
  }
  __device__ void store(char* row, const RowArray& array, unsigned lane, int length) const {
    visit_row_dtype<kPack>(array.dtype, [&]<class T>() {
#pragma unroll
      for (int p = 0; p < kPacks; ++p)
        if (position(p, lane) < length)
          store_elements<T>(row, array.step, position(p, lane), values[p]);
    });
  }
  template <class Body>
  __device__ void each(Body&& body) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
#pragma unroll
      for (int i = 0; i < kPack; ++i) body(p, i, values[p][i]);
  }
};

/// A value of any plain type from the lane whose number differs in the bits of `mask`.
template <class A>
__device__ inline A from_lane(const A& value, unsigned mask) {
  struct Words {
    unsigned word[sizeof(A) / sizeof(unsigned)];
  };
  auto words = __builtin_bit_cast(Words, value);
#pragma unroll
  for (unsigned& word : words.word) word = __shfl_xor_sync(kWholeWarp, word, mask);
  return __builtin_bit_cast(A, words);
}

/// combine(…) over the threads of a group, the same result to each of them. A group is a warp or
/// the whole block; all its threads call this.
template <unsigned kGroup, class A, class Combine>
__device__ inline A across_group(A acc, Combine combine) {
#pragma unroll
  for (unsigned distance = kWarpThreads / 2; distance > 0; distance /= 2)
    acc = combine(acc, from_lane(acc, distance));
  if constexpr (kGroup > kWarpThreads) {
    constexpr unsigned kWarps = kGroup / kWarpThreads;
    __shared__ A warps[kWarps];
    const unsigned lane = threadIdx.x % kWarpThreads;
    __syncthreads();  // an earlier result may still be read
    if (lane == 0) warps[threadIdx.x / kWarpThreads] = acc;
    __syncthreads();
    acc = warps[lane % kWarps];
#pragma unroll
    for (unsigned distance = kWarps / 2; distance > 0; distance /= 2)
      acc = combine(acc, from_lane(acc, distance));
  }
  return acc;
}
template <unsigned kGroup, class C>
__device__ inline C sum_across(C value) {
  return across_group<kGroup>(value, [](C a, C b) { return a + b; });
}
template <unsigned kGroup, class C>
__device__ inline C max_across(C value) {
  return across_group<kGroup>(value, [](C a, C b) { return a > b ? a : b; });
}

/// Whether packs of `pack` elements can be accessed as one in every line of array k.
template <int K>
bool takes_packs(const Lines<K>& lines, int k, int64_t bytes, int64_t pack) {
  const int64_t alignment = std::min<int64_t>(16, pack * bytes);
  bool aligned =
      lines.step[k] == bytes && lines.length % pack == 0 &&
      reinterpret_cast<uintptr_t>(lines.data[k]) % static_cast<uintptr_t>(alignment) == 0;
  for (int d = 0; d < lines.dims; ++d) aligned &= lines.strides[k][d] % alignment == 0;
  return aligned;
}

/// The widest packs that the lines of all arrays have: 8, 4 or 1.
template <int K>
int pack_of(const Lines<K>& lines, const DType (&dtypes)[K]) {
  const auto all_take = [&](int64_t pack) {
    for (int k = 0; k < K; ++k) {
      const auto bytes = static_cast<int64_t>(element_size(dtypes[k]));
      if (bytes > (pack == 8 ? 2 : 4) || !takes_packs(lines, k, bytes, pack)) return false;
    }
    return true;
  };
  return all_take(8) ? 8 : all_take(4) ? 4 : 1;
}

/// The kernel's side of lines, whose dims from `outer` on are walked.
template <int K>
RowsOf<K> rows_of_lines(const Lines<K>& lines, const DType (&dtypes)[K], int outer = 0) {
  RowsOf<K> rows{};
  for (int k = 0; k < K; ++k) rows.array[k] = {lines.data[k], lines.step[k], dtypes[k]};
  int64_t count = 1;
  for (int d = outer; d < lines.dims; ++d) {
    const DivisorNumbers numbers = divisor_numbers(std::max<int64_t>(1, lines.sizes[d]));
    rows.rows.sizes[d - outer] = {numbers.divisor, numbers.multiplier, numbers.shift};
    for (int k = 0; k < K; ++k) rows.rows.strides[k][d - outer] = lines.strides[k][d];
    count *= lines.sizes[d];
  }
  rows.rows.dims = std::max(1, lines.dims - outer);
  rows.count = static_cast<unsigned>(count);
  rows.length = lines.length;
  return rows;
}

/// Calls body(part) for parts of fewer than 2^31 lines: kernels number them in 32 bits.
template <int K, class Body>
void each_part(const Lines<K>& lines, Body&& body) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  if (lines.count <= kMost) return body(lines);
  const int last = lines.dims - 1;
  const int64_t inner = lines.count / lines.sizes[last];
  const int64_t most = std::max<int64_t>(1, kMost / inner);
  for (int64_t first = 0; first < lines.sizes[last]; first += most) {
    Lines<K> part = lines;
    part.sizes[last] = std::min(most, lines.sizes[last] - first);
    part.count = inner * part.sizes[last];
    for (int k = 0; k < K; ++k) part.data[k] += first * lines.strides[k][last];
    if (part.sizes[last] == 1) part.dims = last;
    each_part(part, body);
  }
}

}  // namespace tensora::cuda

#pragma once

// What the kernels of block programs (jit/block_program.h) are made of beside their tiles: loads
// and stores, random numbers, reductions and products. Embedded as text for NVRTC.

#include "tensora/backend/cuda/loops/block_layout.cuh"
#include "tensora/backend/cuda/loops/mma.cuh"
#include "tensora/core/philox.h"

namespace tensora::cuda {

#if defined(__CUDACC__)

// ---- memory -------------------------------------------------------------------------------------

/// Part of an array: its first element, bytes between rows and columns, and how many exist.
struct BlockPart {
  char* data;
  long row_stride, column_stride;
  int rows, columns;
};

/// How many of `extent` elements from `start` on there are.
__device__ inline int bound_of(long start, long size, int extent) {
  const long left = start < 0 ? 0 : size - start;
  return left <= 0 ? 0 : left < extent ? static_cast<int>(left) : extent;
}

template <class T, class L>
inline constexpr bool has_packs = false;
template <class T, int R, int C, int Ts>
inline constexpr bool has_packs<T, Blocked<R, C, Ts>> = Blocked<R, C, Ts>::kPack > 1;

template <class T, int V>
__device__ inline bool is_packed(const BlockPart& part) {
  return part.column_stride == sizeof(T) &&
         (reinterpret_cast<unsigned long long>(part.data) | part.row_stride) % (sizeof(T) * V) == 0;
}

template <class T, class L>
__device__ inline BlockTile<T, L> load_part(const BlockPart& part) {
  BlockTile<T, L> tile;
  tile.rows = part.rows;
  tile.columns = part.columns;
  if constexpr (has_packs<T, L>) {
    constexpr int V = L::kPack;
    if (is_packed<T, V>(part)) {
      Pack<T, V> packs[L::kItems / V];
#pragma unroll
      for (int p = 0; p < L::kItems / V; ++p) {
        const int row = L::row(p * V), column = L::column(p * V);
        const int left = row < part.rows ? part.columns - column : 0;
        packs[p] = load_group<T, V, false>(
            part.data + row * part.row_stride + column * static_cast<long>(sizeof(T)), left);
      }
#pragma unroll
      for (int p = 0; p < L::kItems / V; ++p) unpack(packs[p], tile.items + p * V);
      return tile;
    }
  }
#pragma unroll
  for (int i = 0; i < L::kItems; ++i) {
    const T* const at = reinterpret_cast<const T*>(part.data + L::row(i) * part.row_stride +
                                                   L::column(i) * part.column_stride);
    tile.items[i] = load_value<value_t<T>>(tile.has(i) ? *at : T());
  }
  return tile;
}

template <class Tile>
__device__ inline void store_part(const BlockPart& part, const Tile& tile) {
  using T = typename Tile::T;
  using L = typename Tile::Layout;
  const int rows = smaller_of(part.rows, tile.rows);
  const int columns = smaller_of(part.columns, tile.columns);
  if (!L::owns()) return;
  if constexpr (has_packs<T, L>) {
    constexpr int V = L::kPack;
    if (is_packed<T, V>(part)) {
#pragma unroll
      for (int p = 0; p < L::kItems / V; ++p) {
        const int row = L::row(p * V), column = L::column(p * V);
        const int left = row < rows ? columns - column : 0;
        store_group<T, V, false>(
            part.data + row * part.row_stride + column * static_cast<long>(sizeof(T)),
            tile.items + p * V, left);
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < L::kItems; ++i)
    if (L::row(i) < rows && L::column(i) < columns)
      *reinterpret_cast<T*>(part.data + L::row(i) * part.row_stride +
                            L::column(i) * part.column_stride) = store_value<T>(tile.items[i]);
}

__device__ inline void add_atomically(float* to, float value) { atomicAdd(to, value); }
__device__ inline void add_atomically(double* to, double value) { atomicAdd(to, value); }
__device__ inline void add_atomically(int* to, int value) { atomicAdd(to, value); }
__device__ inline void add_atomically(long* to, long value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}
template <class T>
__device__ inline void add_atomically(T* to, float value) {
  auto* const word = reinterpret_cast<unsigned short*>(to);
  unsigned short seen = *word, expected;
  do {
    expected = seen;
    const float sum = static_cast<float>(__builtin_bit_cast(T, expected)) + value;
    seen = atomicCAS(word, expected, __builtin_bit_cast(unsigned short, store_value<T>(sum)));
  } while (seen != expected);
}

template <class Tile>
__device__ inline void add_part(const BlockPart& part, const Tile& tile) {
  using T = typename Tile::T;
  using L = typename Tile::Layout;
  if (!L::owns()) return;
#pragma unroll
  for (int i = 0; i < L::kItems; ++i)
    if (tile.has(i) && L::row(i) < part.rows && L::column(i) < part.columns)
      add_atomically(reinterpret_cast<T*>(part.data + L::row(i) * part.row_stride +
                                          L::column(i) * part.column_stride),
                     tile.items[i]);
}

/// Random numbers for elements first + row * down + column * across of an array. See Note [Lanes].
template <class L, class Distribution>
__device__ inline BlockTile<float, L> drawn(const Distribution& distribution, long first, long down,
                                            long across, int rows, int columns) {
  BlockTile<float, L> out;
  out.rows = rows;
  out.columns = columns;
#pragma unroll
  for (int i = 0; i < L::kItems; ++i) {
    const long element = first + L::row(i) * down + L::column(i) * across;
    constexpr long kBlock = kPhiloxLanes * 4;
    const PhiloxWords words = philox(
        distribution.seed,
        distribution.offset +
            static_cast<unsigned long>(element / kBlock * kPhiloxLanes + element % kPhiloxLanes));
    float values[4];
    distribution.values(words.word, values);
    out.items[i] = values[element % kBlock / kPhiloxLanes];
  }
  return out;
}

// ---- reductions ---------------------------------------------------------------------------------

/// The reduction of the columns (axis 1) or rows (axis 0) that exist, by a functor of
/// core/reduction.h over C. Slots of shared memory take what the warps found.
template <class Out, class C, int axis, bool mean, class F, class In>
__device__ inline auto reduced(const F& functor, const In& in, unsigned char* shared) {
  using L = typename In::Layout;
  using Lane = typename F::Lane;
  using S = Slice<L, axis>;
  constexpr int kSlots = axis == 1 ? L::kRowSlots : L::kColumnSlots;
  constexpr int kLanes = axis == 1 ? L::kRowLanes : L::kColumnLanes;
  constexpr int kFirst = axis == 1 ? 1 : L::kFirstDistance;
  Lane lanes[S::kItems];
#pragma unroll
  for (int s = 0; s < S::kItems; ++s) lanes[s] = functor.lane();
#pragma unroll
  for (int i = 0; i < L::kItems; ++i) {
    const int s = axis == 1 ? L::row_item(i) : L::column_item(i);
    const Lane next = functor.step(lanes[s], static_cast<typename F::Value>(in.items[i]));
    if (axis == 1 ? L::column(i) < in.columns : L::row(i) < in.rows) lanes[s] = next;
  }
#pragma unroll
  for (int distance = kFirst; distance < kFirst * kLanes; distance *= 2)
#pragma unroll
    for (int s = 0; s < S::kItems; ++s)
      lanes[s] = functor.merge(lanes[s], __shfl_xor_sync(kWholeWarp, lanes[s], distance));
  if constexpr (kSlots > 1) {
    Lane* const slots = reinterpret_cast<Lane*>(shared);
    const int slot = axis == 1 ? L::row_slot() : L::column_slot();
    __syncthreads();
#pragma unroll
    for (int s = 0; s < S::kItems; ++s)
      slots[(axis == 1 ? S::row(s) : S::column(s)) * kSlots + slot] = lanes[s];
    __syncthreads();
#pragma unroll
    for (int s = 0; s < S::kItems; ++s) {
      const Lane* const found = slots + (axis == 1 ? S::row(s) : S::column(s)) * kSlots;
      lanes[s] = found[0];
      for (int k = 1; k < kSlots; ++k) lanes[s] = functor.merge(lanes[s], found[k]);
    }
  }
  BlockTile<Out, S> out;
  out.rows = axis == 1 ? in.rows : 1;
  out.columns = axis == 1 ? 1 : in.columns;
#pragma unroll
  for (int s = 0; s < S::kItems; ++s)
    if constexpr (mean)
      out.items[s] = rounded<Out>(lanes[s] / static_cast<C>(axis == 1 ? in.columns : in.rows));
    else
      out.items[s] = rounded<Out>(functor.finish(functor.widen(lanes[s])));
  return out;
}
/// A reduction of one row or one column leaves one value in all threads.
template <class Out, class C, int axis, bool mean, int R, int Cs, int T, class F, class In>
__device__ inline auto reduced_tile(const F& functor, const In& in, unsigned char* shared) {
  using Wide = Blocked<R, Cs, T>;
  auto whole = [&] {
    if constexpr (is_same<typename In::Layout, Fragments<R, Cs, T>>)
      return in;
    else
      return spread<Wide>(in, shared);
  }();
  auto slices = reduced<Out, C, axis, mean>(functor, whole, shared);
  if constexpr ((axis == 1 ? R : Cs) == 1) {
    BlockTile<Out, Single> one;
    one.items[0] = slices.items[0];
    one.rows = slices.rows;
    one.columns = slices.columns;
    return one;
  } else {
    return slices;
  }
}

// ---- products -----------------------------------------------------------------------------------

template <class T, int M, int N, int K>
inline constexpr bool uses_mma = is_half_type<T> && M >= 16 && N >= 8 && K >= 16;

/// What a product's sums are kept in.
template <class T, int M, int N, int K, int Ts, bool mma>
struct ProductLayoutOf {
  using type = Canonical<M, N, Ts>;
};
template <class T, int M, int N, int K, int Ts>
struct ProductLayoutOf<T, M, N, K, Ts, true> {
  using type = Fragments<M, N, Ts>;
};
template <class T, int M, int N, int K, int Ts>
using ProductLayout = typename ProductLayoutOf<T, M, N, K, Ts, uses_mma<T, M, N, K>>::type;

/// Writes a factor to shared memory, row-major; what is beyond the bounds is 0.
template <class T, int kStride, class Tile>
__device__ inline void write_factor(T* to, const Tile& tile, int rows, int columns) {
  using L = typename Tile::Layout;
  if (!L::owns()) return;
#pragma unroll
  for (int i = 0; i < L::kItems; ++i) {
    const int row = L::row(i), column = L::column(i);
    to[row * kStride + column] =
        row < rows && column < columns ? store_value<T>(tile.items[i]) : T();
  }
}

template <int M, int N, int K, int T, class Sum, class E>
__device__ inline void multiply_shared(Sum& sum, const E* left, const E* right) {
  using L = typename Sum::Layout;
  constexpr int kLeft = K + 8, kRight = N + 8;
  if constexpr (uses_mma<E, M, N, K>) {
    constexpr int kDown = L::kWarpRows / 16, kAcross = L::kWarpColumns / 8;
#pragma unroll
    for (int k = 0; k < K; k += 16) {
      unsigned a[kDown][4], b[kAcross][2];
#pragma unroll
      for (int m = 0; m < kDown; ++m)
        load_left(left + (L::first_row() + m * 16) * kLeft + k, kLeft, a[m]);
#pragma unroll
      for (int n = 0; n < kAcross; ++n)
        load_right(right + k * kRight + L::first_column() + n * 8, kRight, b[n]);
#pragma unroll
      for (int m = 0; m < kDown; ++m)
#pragma unroll
        for (int n = 0; n < kAcross; ++n)
          multiply_add<E>(sum.items + (m * kAcross + n) * 4, a[m], b[n]);
    }
  } else {
    using V = value_t<typename Sum::T>;
#pragma unroll 4
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int i = 0; i < L::kItems; ++i)
        sum.items[i] += load_value<V>(left[L::row(i) * kLeft + k]) *
                        load_value<V>(right[k * kRight + L::column(i)]);
  }
}

/// sum += a times b, in the bounds of the product; M x K times K x N.
template <int M, int N, int K, int T, class Sum, class A, class B>
__device__ inline void product_add(Sum& sum, const A& a, const B& b, unsigned char* shared) {
  using E = typename A::T;
  using L = typename Sum::Layout;
  const int inner = smaller_of(a.columns, b.rows);
  E* const left = reinterpret_cast<E*>(shared);
  E* const right = left + M * (K + 8);
  __syncthreads();
  write_factor<E, K + 8>(left, a, a.rows, inner);
  write_factor<E, N + 8>(right, b, inner, b.columns);
  __syncthreads();
  if (a.rows >= M && b.columns >= N) {
    multiply_shared<M, N, K, T>(sum, left, right);
    return;
  }
  const Sum before = sum;
  multiply_shared<M, N, K, T>(sum, left, right);
#pragma unroll
  for (int i = 0; i < L::kItems; ++i)
    if (L::row(i) >= a.rows || L::column(i) >= b.columns) sum.items[i] = before.items[i];
}

template <class Out, int M, int N, int K, int T, class A, class B>
__device__ inline auto product(const A& a, const B& b, unsigned char* shared) {
  auto sum = filled<Out, ProductLayout<typename A::T, M, N, K, T>>(0, a.rows, b.columns);
  product_add<M, N, K, T>(sum, a, b, shared);
  return sum;
}

#endif

}  // namespace tensora::cuda

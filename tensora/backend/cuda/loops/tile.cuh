#pragma once

// What the kernels of tile programs (jit/tile_program.h) are made of: parameters, loads and stores
// of a thread's elements, and reductions of rows. Shared by the host, which fills the parameters,
// and, as embedded text, by NVRTC.

#include "tensora/backend/cuda/loops/elements.cuh"

namespace tensora::cuda {

inline constexpr int kMaxTileNumbers = 24;

/// Arrays are results first, then inputs. Of a program of rows the walk goes over the rows.
template <int K>
struct TileParams {
  Walk<K> walk;
  char* data[K];
  int steps[K];    // bytes between the elements of a group, or of a row
  unsigned count;  // groups, or rows
  unsigned tail;   // elements after the last whole group
  int length;      // of a row
  unsigned long long numbers[kMaxTileNumbers];  // from the host, as bits of their dtypes
};

#if defined(__CUDACC__)

/// The type in which values of a dtype are kept in registers.
template <class T>
struct ValueOf {
  using type = int;
};
template <>
struct ValueOf<Half> {
  using type = float;
};
template <>
struct ValueOf<BFloat16> {
  using type = float;
};
template <>
struct ValueOf<float> {
  using type = float;
};
template <>
struct ValueOf<double> {
  using type = double;
};
template <>
struct ValueOf<long> {
  using type = long;
};
template <class T>
using value_t = typename ValueOf<T>::type;

/// A number that came with the launch.
template <class T>
__device__ inline value_t<T> number(unsigned long long bits) {
  if constexpr (sizeof(T) == 8)
    return __builtin_bit_cast(T, bits);
  else if constexpr (sizeof(T) == 4)
    return __builtin_bit_cast(T, static_cast<unsigned>(bits));
  else if constexpr (sizeof(T) == 2)
    return load_value<value_t<T>>(__builtin_bit_cast(T, static_cast<unsigned short>(bits)));
  else
    return static_cast<value_t<T>>(static_cast<T>(bits));
}

/// Ends an op: a product is not contracted with a sum of the next op, because eager kernels round
/// in between.
template <class V>
__device__ inline void end_op(V&) {}
template <>
__device__ inline void end_op(float& value) {
  asm("" : "+f"(value));
}
template <>
__device__ inline void end_op(double& value) {
  asm("" : "+d"(value));
}

/// Computed values as an op of dtype T would have stored them.
template <class T, class C>
__device__ inline value_t<T> rounded(C value) {
  value_t<T> result = load_value<value_t<T>>(store_value<T>(value));
  end_op(result);
  return result;
}
template <class T, class C, int N>
__device__ inline void round_all(const C (&from)[N], value_t<T> (&to)[N]) {
  if constexpr (is_half_type<T> && N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const unsigned word =
          round_pair<T>(static_cast<float>(from[i]), static_cast<float>(from[i + 1]));
      if constexpr (is_bfloat16_type<T>) {
        to[i] = __builtin_bit_cast(float, word << 16);
        to[i + 1] = __builtin_bit_cast(float, word & 0xffff0000u);
      } else {
        to[i] = load_value<float>(__builtin_bit_cast(T, static_cast<unsigned short>(word)));
        to[i + 1] =
            load_value<float>(__builtin_bit_cast(T, static_cast<unsigned short>(word >> 16)));
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = rounded<T>(from[i]);
  }
}

/// V times the same value.
template <int V, class C>
__device__ inline Pack<C, V> repeated(C value) {
  Pack<C, V> pack;
#pragma unroll
  for (int i = 0; i < V; ++i) pack.items[i] = value;
  return pack;
}

/// A functor's formula for 16-bit results; see ops/pointwise/cuda_formulas.cuh.
template <class F>
struct HalfFormula;
template <class F, class... Operands>
__device__ inline float half_value(const F& functor, Operands... operands) {
  if constexpr (requires { HalfFormula<F>::forward(operands...); })
    return HalfFormula<F>::forward(operands...);
  else
    return functor.forward(operands...);
}

// ---- groups of adjacent elements ----------------------------------------------------------------

/// V elements, of which `valid` exist (below 0: none, beyond V: all); the others are 0. With `once`
/// they are not read again soon.
// ptxas 13.0 reads and writes all where a `valid` that was clamped to [0, V] is 0; so it is not
// clamped.
template <class T, int V, bool once>
__device__ inline Pack<T, V> load_group(const char* from, int valid) {
  Pack<T, V> pack;
  if (valid >= V) {
    if constexpr (once && sizeof(pack) == 16)
      return __builtin_bit_cast(Pack<T, V>, __ldcs(reinterpret_cast<const uint4*>(from)));
    else
      return *reinterpret_cast<const Pack<T, V>*>(from);
  }
  const T* const elements = reinterpret_cast<const T*>(from);
#pragma unroll
  for (int i = 0; i < V; ++i) pack.items[i] = i < valid ? elements[i] : T();
  return pack;
}
/// The same of elements that are `step` bytes apart.
template <class T, int V>
__device__ inline Pack<T, V> gather_group(const char* from, int step, int valid) {
  Pack<T, V> pack;
#pragma unroll
  for (int i = 0; i < V; ++i)
    pack.items[i] =
        i < valid ? *reinterpret_cast<const T*>(from + static_cast<long long>(i) * step) : T();
  return pack;
}
template <class T, int V, class C>
__device__ inline Pack<T, V> pack_of(const C* values) {
  Pack<T, V> pack;
  if constexpr (is_half_type<T> && V % 2 == 0) {
    Pack<unsigned, V / 2> words;
#pragma unroll
    for (int i = 0; i < V / 2; ++i)
      words.items[i] = round_pair<T>(static_cast<float>(values[2 * i]),  //
                                     static_cast<float>(values[2 * i + 1]));
    pack = __builtin_bit_cast(Pack<T, V>, words);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) pack.items[i] = store_value<T>(values[i]);
  }
  return pack;
}
template <class T, int V, bool once, class C>
__device__ inline void store_group(char* to, const C* values, int valid) {
  const Pack<T, V> pack = pack_of<T, V>(values);
  if (valid >= V) {
    if constexpr (once && sizeof(pack) == 16)
      __stcs(reinterpret_cast<uint4*>(to), __builtin_bit_cast(uint4, pack));
    else
      *reinterpret_cast<Pack<T, V>*>(to) = pack;
    return;
  }
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (i < valid) reinterpret_cast<T*>(to)[i] = pack.items[i];
}
template <class T, int V, class C>
__device__ inline void scatter_group(char* to, int step, const C* values, int valid) {
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (i < valid)
      *reinterpret_cast<T*>(to + static_cast<long long>(i) * step) = store_value<T>(values[i]);
}
template <class T, int V, class C>
__device__ inline void unpack(const Pack<T, V>& pack, C* to) {
#pragma unroll
  for (int i = 0; i < V; ++i) to[i] = load_value<C>(pack.items[i]);
}

// ---- rows ---------------------------------------------------------------------------------------

/// A row that G threads hold, N elements each, in packs of V: where a thread's packs are.
/// With `full` all of them exist.
template <int N, int V, int G, bool full>
struct RowPlaces {
  int length;
  int lane;
  /// The first element of pack p, and how many of its elements exist, as load_group takes it.
  __device__ int first(int p) const { return (p * G + lane) * V; }
  __device__ int valid(int p) const {
    if constexpr (full) return V;
    return length - first(p);
  }
};

/// The reduction of a row by a functor of core/reduction.h; every thread gets the result. `kTag`
/// differs between the reductions of a kernel: each has shared memory of its own.
template <int kTag, int N, int V, int G, bool full, class F, class C>
__device__ inline typename F::Lane reduce_row(const F& functor,
                                              const RowPlaces<N, V, G, full>& places,
                                              const C (&values)[N]) {
  using Lane = typename F::Lane;
  constexpr int kChains = N >= 4 ? 4 : 1;  // steps that do not wait for one another
  Lane chains[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c) chains[c] = functor.lane();
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const Lane next = functor.step(chains[k % kChains], static_cast<typename F::Value>(values[k]));
    if (k % V < places.valid(k / V)) chains[k % kChains] = next;
  }
  Lane lane = chains[0];
#pragma unroll
  for (int c = 1; c < kChains; ++c) lane = functor.merge(lane, chains[c]);
#pragma unroll
  for (int distance = (G < 32 ? G : 32) / 2; distance > 0; distance /= 2)
    lane = functor.merge(lane, __shfl_xor_sync(kWholeWarp, lane, distance));
  if constexpr (G > 32) {
    __shared__ Lane warps[G / 32];
    if (places.lane % 32 == 0) warps[places.lane / 32] = lane;
    __syncthreads();
    lane = warps[places.lane % (G / 32)];
#pragma unroll
    for (int distance = G / 64; distance > 0; distance /= 2)
      lane = functor.merge(lane, __shfl_xor_sync(kWholeWarp, lane, distance));
  }
  return lane;
}

#endif

}  // namespace tensora::cuda

#pragma once

// What pointwise kernels do around the arithmetic: turning a thread's number into addresses,
// reading and writing groups of elements, converting between dtypes. The text is also embedded and
// compiled by NVRTC for fused kernels, so it includes nothing of the standard library.

#include "tensora/base/half.h"

namespace tensora::cuda {

inline constexpr int kThreads = 256;  // per block, of all pointwise kernels
inline constexpr int kMaxWalkDims = 8;

// Note [Division by multiplication]
// A kernel splits its element number into an index per dim, and a division by a number that is
// known only at the launch costs about twenty instructions. The host finds m and s such that
// n / d = (umulhi(n, m) + n) >> s for every n < 2^31: two instructions.
struct Divisor {
  unsigned divisor, multiplier, shift;

  __device__ unsigned divide(unsigned n) const { return (__umulhi(n, multiplier) + n) >> shift; }
};

/// How K arrays are walked in step. Dim 0 is the innermost. Offsets are in bytes and between -2^31
/// and 2^31: the host cuts larger work into several launches. Negative strides wrap around.
template <int K>
struct Walk {
  int dims;
  Divisor sizes[kMaxWalkDims];
  unsigned strides[K][kMaxWalkDims];

  __device__ void offsets(unsigned index, int (&offset)[K]) const {
    unsigned at[K];
#pragma unroll
    for (int k = 0; k < K; ++k) at[k] = 0;
#pragma unroll 1
    for (int d = 0; d + 1 < dims; ++d) {
      const unsigned rest = sizes[d].divide(index);
      const unsigned position = index - rest * sizes[d].divisor;
#pragma unroll
      for (int k = 0; k < K; ++k) at[k] += position * strides[k][d];
      index = rest;
    }
#pragma unroll
    for (int k = 0; k < K; ++k) offset[k] = static_cast<int>(at[k] + index * strides[k][dims - 1]);
  }
};

/// How a kernel finds an operand's values.
enum class Access : unsigned char {
  vector,    // a group lies gapless, aligned
  repeat,    // one element serves the whole group
  element,   // element by element
  constant,  // the value came with the launch
};

template <class T>
inline constexpr bool is_half_type = false;
template <>
inline constexpr bool is_half_type<Half> = true;
template <>
inline constexpr bool is_half_type<BFloat16> = true;
template <class T>
inline constexpr bool is_float_type = false;
template <>
inline constexpr bool is_float_type<float> = true;
template <>
inline constexpr bool is_float_type<double> = true;
template <class T>
inline constexpr bool is_bool_type = false;
template <>
inline constexpr bool is_bool_type<bool> = true;

/// An element as a value of the compute type; the same rules as the CPU's convert.h.
template <class C, class T>
__device__ inline C load_value(T value) {
  if constexpr (is_half_type<T>)
    return static_cast<C>(static_cast<float>(value));
  else
    return static_cast<C>(value);
}

/// A computed value as an element.
template <class T, class C>
__device__ inline T store_value(C value) {
  if constexpr (is_bool_type<T>)
    return value != C(0);
  else if constexpr (is_half_type<T>)
    return T(static_cast<float>(value));
  else if constexpr (is_float_type<C> && !is_float_type<T> && sizeof(T) < 4)
    return static_cast<T>(static_cast<int>(value));  // wraps like PyTorch's casts
  else
    return static_cast<T>(value);
}

/// V elements that travel in accesses of up to 16 bytes.
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T items[V];
};

template <class T, class C, int V>
__device__ inline void load_pack(const char* from, C (&to)[V]) {
  const auto pack = *reinterpret_cast<const Pack<T, V>*>(from);
#pragma unroll
  for (int i = 0; i < V; ++i) to[i] = load_value<C>(pack.items[i]);
}

template <class T, class C, int V>
__device__ inline void store_pack(char* to, const C (&from)[V]) {
  Pack<T, V> pack;
#pragma unroll
  for (int i = 0; i < V; ++i) pack.items[i] = store_value<T>(from[i]);
  *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

}  // namespace tensora::cuda

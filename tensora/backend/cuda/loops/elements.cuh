#pragma once

// What pointwise kernels do around the arithmetic: turning a thread's number into addresses,
// reading and writing groups of elements, converting between dtypes. The text is also embedded and
// compiled by NVRTC for fused kernels, so it includes nothing of the standard library.

#include "tensora/base/complex.h"
#include "tensora/base/float8.h"
#include "tensora/base/half.h"

namespace tensora::cuda {

inline constexpr int kThreads = 256;  // per block, of all pointwise kernels
inline constexpr int kMaxWalkDims = 8;
inline constexpr unsigned kWholeWarp = 0xffffffffu;  // all lanes take part in a shuffle or vote

// Note [Division by multiplication]
// A kernel splits its element number into an index per dim, and a division by a number that is
// known only at the launch costs about twenty instructions. The host finds m and s such that
// n / d = (umulhi(n, m) + n) >> s for every n < 2^31: two instructions.
struct Divisor {
  unsigned divisor, multiplier, shift;

  __device__ unsigned divide(unsigned n) const { return (__umulhi(n, multiplier) + n) >> shift; }
};

/// How K arrays are walked in step. Dim 0 is the innermost. Offsets are in bytes and between -2^31
/// and 2^31: the host splits larger work into several launches. Negative strides wrap around.
template <int K>
struct Walk {
  int dims;
  Divisor sizes[kMaxWalkDims];
  unsigned strides[K][kMaxWalkDims];

  __device__ void offsets(unsigned index, int (&offset)[K]) const {
    if (dims == 1) {  // most often, and with nothing to wait for
#pragma unroll
      for (int k = 0; k < K; ++k) offset[k] = static_cast<int>(index * strides[k][0]);
      return;
    }
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
  vector,    // a group is contiguous and aligned
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
inline constexpr bool is_float8_type = false;
template <>
inline constexpr bool is_float8_type<Float8E4M3> = true;
template <>
inline constexpr bool is_float8_type<Float8E5M2> = true;
template <class T>
inline constexpr bool is_bfloat16_type = false;
template <>
inline constexpr bool is_bfloat16_type<BFloat16> = true;
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
  if constexpr (is_complex_type<C> && !is_complex_type<T>)
    return C(load_value<decltype(C::re)>(value));
  else if constexpr (is_half_type<T> || is_float8_type<T>)
    return static_cast<C>(static_cast<float>(value));
  else
    return static_cast<C>(value);
}

/// Rounds in one instruction, where BFloat16's own constructor takes six.
__device__ inline BFloat16 round_to_bfloat16(float value) {
  BFloat16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}
/// Two elements in one word, by one instruction.
template <class T>
__device__ inline unsigned round_pair(float low, float high) {
  unsigned word;
  if constexpr (is_bfloat16_type<T>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

/// A computed value as an element.
template <class T, class C>
__device__ inline T store_value(C value) {
  if constexpr (is_bool_type<T>)
    return value != C(0);
  else if constexpr (is_complex_type<C> && !is_complex_type<T>)
    return store_value<T>(value.re);
  else if constexpr (is_bfloat16_type<T>)
    return round_to_bfloat16(static_cast<float>(value));
  else if constexpr (is_half_type<T> || is_float8_type<T>)
    return T(static_cast<float>(value));
  else if constexpr (is_float_type<C> && !is_float_type<T> && sizeof(T) < 4)
    return static_cast<T>(static_cast<int>(value));  // wraps like PyTorch's casts
  else
    return static_cast<T>(value);
}

/// V elements that are moved in accesses of up to 16 bytes.
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T items[V];
};

// Note [Fetch first, convert later]
// A thread that converts an operand before it loads the next one waits for memory once per operand.
// So the bytes of all operands are loaded first, as plain words whose dtype does not matter yet,
// and all loads of a thread are in flight together.
struct RawGroup {
  unsigned words[4];
};

/// 1, 2, 4, 8 or 16 bytes, aligned to as much.
template <int bytes>
__device__ inline void fetch(const char* from, RawGroup& to) {
  if constexpr (bytes == 16) {
    const auto pack = *reinterpret_cast<const Pack<unsigned, 4>*>(from);
#pragma unroll
    for (int i = 0; i < 4; ++i) to.words[i] = pack.items[i];
  } else if constexpr (bytes == 8) {
    const auto pack = *reinterpret_cast<const Pack<unsigned, 2>*>(from);
    to.words[0] = pack.items[0];
    to.words[1] = pack.items[1];
  } else if constexpr (bytes == 4) {
    to.words[0] = *reinterpret_cast<const unsigned*>(from);
  } else if constexpr (bytes == 2) {
    to.words[0] = *reinterpret_cast<const unsigned short*>(from);
  } else {
    to.words[0] = *reinterpret_cast<const unsigned char*>(from);
  }
}

/// Element i of a fetched group.
template <class T>
__device__ inline T element_of(const RawGroup& raw, int i) {
  if constexpr (sizeof(T) == 8)
    return __builtin_bit_cast(
        T, raw.words[2 * i] | static_cast<unsigned long long>(raw.words[2 * i + 1]) << 32);
  else if constexpr (sizeof(T) == 4)
    return __builtin_bit_cast(T, raw.words[i]);
  else if constexpr (sizeof(T) == 2)
    return __builtin_bit_cast(T, static_cast<unsigned short>(raw.words[i / 2] >> (i % 2 * 16)));
  else
    return static_cast<T>(static_cast<unsigned char>(raw.words[i / 4] >> (i % 4 * 8)));
}

/// V contiguous elements as values of the compute type.
template <class T, class C, int V>
__device__ inline void load_pack(const char* from, C (&to)[V]) {
  const auto pack = *reinterpret_cast<const Pack<T, V>*>(from);
#pragma unroll
  for (int i = 0; i < V; ++i) to[i] = load_value<C>(pack.items[i]);
}

/// Stores V computed values contiguously.
template <class T, class C, int V>
__device__ inline void store_pack(char* to, const C (&from)[V]) {
  if constexpr (is_half_type<T> && V % 2 == 0) {
    Pack<unsigned, V / 2> pack;
#pragma unroll
    for (int i = 0; i < V / 2; ++i)
      pack.items[i] = round_pair<T>(static_cast<float>(from[2 * i]),  //
                                    static_cast<float>(from[2 * i + 1]));
    *reinterpret_cast<Pack<unsigned, V / 2>*>(to) = pack;
  } else {
    Pack<T, V> pack;
#pragma unroll
    for (int i = 0; i < V; ++i) pack.items[i] = store_value<T>(from[i]);
    *reinterpret_cast<Pack<T, V>*>(to) = pack;
  }
}

}  // namespace tensora::cuda

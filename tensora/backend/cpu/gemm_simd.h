#pragma once

// Vectors for the *_isa.cpp files of gemm, as wide as those of the instruction set.
//
// Note [No shared inline code]
// These files are compiled once for each instruction set. An inline function that is shared with
// the rest of the library (std::min, Half::decode) may be emitted here with AVX-512 instructions
// and then be chosen by the linker for the whole library. So everything called here lives in the
// TENSORA_ISA namespace or is a compiler builtin.

#include <cstdint>
#include <type_traits>

#include "tensora/backend/cpu/gemm_kernels.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

// Vectors wider than the registers are split by the compiler; the functions that pass them are all
// inlined, so there is no calling convention to warn about.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace tensora::cpu::TENSORA_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <class C, int Lanes>
struct VectorOf {
  typedef C type __attribute__((vector_size(Lanes * sizeof(C))));
};
template <class C, int Lanes>
using VectorN = typename VectorOf<C, Lanes>::type;

template <class C>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(C));
template <class C>
using Vector = VectorN<C, kLanes<C>>;

template <class T>
[[gnu::always_inline]] inline constexpr T min_of(T x, T y) {
  return x < y ? x : y;
}

template <class V, class C>
[[gnu::always_inline]] inline V load(const C* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class V, class C>
[[gnu::always_inline]] inline void store(C* p, const V& v) {
  __builtin_memcpy(p, &v, sizeof v);
}

template <class C, class T>
[[gnu::always_inline]] inline C widen(T value) {
  if constexpr (std::is_same_v<T, Half>) {
#if defined(__F16C__)
    return _cvtsh_ss(value.bits);
#else
    // The exponent of a shifted half is 112 too small; the product corrects it, subnormals too.
    const unsigned magnitude = static_cast<unsigned>(value.bits & 0x7fffu) << 13;
    float result = __builtin_bit_cast(float, magnitude) * 0x1p112f;
    constexpr unsigned half_infinity = 0x7c00u, float_infinity = 0x7f800000u;
    if ((value.bits & half_infinity) == half_infinity) {
      result = __builtin_bit_cast(float, magnitude | float_infinity);
    }
    const unsigned sign = static_cast<unsigned>(value.bits & 0x8000u) << 16;
    return __builtin_bit_cast(float, __builtin_bit_cast(unsigned, result) | sign);
#endif
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return __builtin_bit_cast(float, static_cast<unsigned>(value.bits) << 16);
  } else {
    return static_cast<C>(value);
  }
}

/// Loads and converts Lanes elements.
template <class C, int Lanes, class T>
[[gnu::always_inline]] inline VectorN<C, Lanes> load_wide(const T* p) {
  using V = VectorN<C, Lanes>;
  if constexpr (sizeof(T) == sizeof(C)) {
    return load<V>(p);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const auto bits = load<VectorN<uint16_t, Lanes>>(p);
    return (V)(__builtin_convertvector(bits, VectorN<uint32_t, Lanes>) << 16);
  } else if constexpr (std::is_same_v<T, Half>) {
#if defined(__AVX512F__)
    // The masked form, because GCC 12 warns about the plain one's undefined operand.
    if constexpr (Lanes == 16) return (V)_mm512_maskz_cvtph_ps(0xffff, load<__m256i>(p));
#endif
#if defined(__F16C__)
    if constexpr (Lanes == 8) return (V)_mm256_cvtph_ps(load<__m128i>(p));
    if constexpr (Lanes == 4) return (V)_mm_cvtph_ps(_mm_loadl_epi64((const __m128i*)(p)));
#endif
    V v = {};
    for (int lane = 0; lane < Lanes; ++lane) v[lane] = widen<C>(p[lane]);
    return v;
  } else {
    V v = {};
    for (int lane = 0; lane < Lanes; ++lane) v[lane] = static_cast<C>(p[lane]);
    return v;
  }
}

template <class T, class C>
[[gnu::always_inline]] inline T narrow(C value) {
  if constexpr (std::is_same_v<T, Half>) {
    Half result;
#if defined(__F16C__)
    result.bits = _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
#else
    // As in Half::encode.
    constexpr unsigned float_infinity = 0x7f800000u, half_infinity = 0x7c00u, half_nan = 0x7e00u;
    constexpr unsigned overflow = 0x477ff000u, normal = 0x38800000u;
    const unsigned raw = __builtin_bit_cast(unsigned, value);
    const unsigned sign = (raw >> 16) & 0x8000u;
    const unsigned magnitude = raw & 0x7fffffffu;
    unsigned half = 0;
    if (magnitude > float_infinity) {
      half = half_nan;
    } else if (magnitude >= overflow) {
      half = half_infinity;
    } else if (magnitude < normal) {
      // Subnormal: adding 0.5 lines the fraction up, and the float adder rounds.
      const float aligned = __builtin_bit_cast(float, magnitude) + 0.5f;
      half = __builtin_bit_cast(unsigned, aligned) - 0x3f000000u;
    } else {
      half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    }
    result.bits = static_cast<unsigned short>(sign | half);
#endif
    return result;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const unsigned raw = __builtin_bit_cast(unsigned, value);
    constexpr unsigned infinity = 0x7f800000u, nan = 0x7fc0u;  // of float, of bfloat16
    const bool is_nan = (raw & 0x7fffffffu) > infinity;
    BFloat16 result;
    result.bits =
        static_cast<unsigned short>(is_nan ? nan : (raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16);
    return result;
  } else {
    return static_cast<T>(value);
  }
}

/// x * y + z, rounded once where there is an instruction for it, whether as a vector or alone. (How
/// the compiler rounds a sum of two products depends on the code around it.)
template <class C>
[[gnu::always_inline]] inline C multiply_add(C x, C y, C z) {
#if defined(__FMA__)
  if constexpr (std::is_same_v<C, float>) return __builtin_fmaf(x, y, z);
  if constexpr (std::is_same_v<C, double>) return __builtin_fma(x, y, z);
#endif
  return x * y + z;
}

template <class C>
[[gnu::always_inline]] inline Vector<C> multiply_add(C x, Vector<C> y, Vector<C> z) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<C, float>) return _mm512_fmadd_ps(_mm512_set1_ps(x), y, z);
  if constexpr (std::is_same_v<C, double>) return _mm512_fmadd_pd(_mm512_set1_pd(x), y, z);
#elif defined(__FMA__)
  if constexpr (std::is_same_v<C, float>) return _mm256_fmadd_ps(_mm256_set1_ps(x), y, z);
  if constexpr (std::is_same_v<C, double>) return _mm256_fmadd_pd(_mm256_set1_pd(x), y, z);
#endif
  return x * y + z;
}

/// A vector's elements as T, rounded as narrow() does.
template <class T, class C>
[[gnu::always_inline]] inline void store_narrow(T* p, Vector<C> v) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, Half>) {
    // The masked form, as in load_wide.
    store(p, _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT));
    return;
  }
#elif defined(__F16C__)
  if constexpr (std::is_same_v<T, Half>) {
    store(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    return;
  }
#endif
  for (int lane = 0; lane < kLanes<C>; ++lane) p[lane] = narrow<T>(C(v[lane]));
}

/// The sum of all lanes, halves first.
template <class C, int Lanes>
[[gnu::always_inline]] inline C sum_lanes(VectorN<C, Lanes> v) {
  if constexpr (Lanes == 2) {
    return v[0] + v[1];
  } else {
    using HalfVector = VectorN<C, Lanes / 2>;
    HalfVector low, high;
    __builtin_memcpy(&low, &v, sizeof low);
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
    return sum_lanes<C, Lanes / 2>(low + high);
  }
}

}  // namespace tensora::cpu::TENSORA_ISA

#pragma once

// Internal header: vectors of one or two times eight lanes of 32 bits, so that the products of
// quant_products.h are written once for 256 and for 512 bits.

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>

namespace tensora::cpu::TENSORA_ISA {

/// Whole numbers may be added in any order, and compilers put sums off until they run out of
/// registers; this makes them add at once.
[[gnu::always_inline]] inline void keep_in_register(__m256i& value) { asm("" : "+x"(value)); }

[[gnu::always_inline]] inline __m256 to_floats(__m256i x) { return _mm256_cvtepi32_ps(x); }
[[gnu::always_inline]] inline __m256i plus(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
[[gnu::always_inline]] inline __m256i minus(__m256i a, __m256i b) { return _mm256_sub_epi32(a, b); }
[[gnu::always_inline]] inline __m256i times(__m256i a, __m256i b) {
  return _mm256_mullo_epi32(a, b);
}
[[gnu::always_inline]] inline __m256 times(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }
/// a b + c, rounded once.
[[gnu::always_inline]] inline __m256 fused(__m256 a, __m256 b, __m256 c) {
  return _mm256_fmadd_ps(a, b, c);
}
/// c - a b, rounded once.
[[gnu::always_inline]] inline __m256 fused_less(__m256 a, __m256 b, __m256 c) {
  return _mm256_fnmadd_ps(a, b, c);
}

/// Adds the products of four neighbouring bytes each, q without a sign.
[[gnu::always_inline]] inline __m256i with_fours(__m256i sum, __m256i q, __m256i x) {
#if defined(__AVX512VNNI__)
  return _mm256_dpbusd_epi32(sum, q, x);
#else
  const __m256i pairs = _mm256_maddubs_epi16(q, x);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}
/// Adds the products of two neighbouring numbers of 16 bits each.
[[gnu::always_inline]] inline __m256i with_pairs(__m256i sum, __m256i a, __m256i b) {
#if defined(__AVX512VNNI__)
  return _mm256_dpwssd_epi32(sum, a, b);
#else
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
#endif
}

#if defined(__AVX512VNNI__)
[[gnu::always_inline]] inline void keep_in_register(__m512i& value) { asm("" : "+v"(value)); }

// Masked, because GCC 12 takes the plain intrinsic's undefined source for an uninitialized
// variable.
[[gnu::always_inline]] inline __m512 to_floats(__m512i x) {
  return _mm512_maskz_cvtepi32_ps(0xffff, x);
}
[[gnu::always_inline]] inline __m512i plus(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
[[gnu::always_inline]] inline __m512i minus(__m512i a, __m512i b) { return _mm512_sub_epi32(a, b); }
[[gnu::always_inline]] inline __m512i times(__m512i a, __m512i b) {
  return _mm512_mullo_epi32(a, b);
}
[[gnu::always_inline]] inline __m512 times(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }
[[gnu::always_inline]] inline __m512 fused(__m512 a, __m512 b, __m512 c) {
  return _mm512_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline __m512 fused_less(__m512 a, __m512 b, __m512 c) {
  return _mm512_fnmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline __m512i with_fours(__m512i sum, __m512i q, __m512i x) {
  return _mm512_dpbusd_epi32(sum, q, x);
}
[[gnu::always_inline]] inline __m512i with_pairs(__m512i sum, __m512i a, __m512i b) {
  return _mm512_dpwssd_epi32(sum, a, b);
}
#endif

/// The vectors of E times eight lanes.
template <int E>
struct Eights {
  using Whole = __m256i;
  using Floats = __m256;
  [[gnu::always_inline]] static Whole load(const __m256i (&from)[E]) { return from[0]; }
  [[gnu::always_inline]] static Floats load(const __m256 (&from)[E]) { return from[0]; }
  [[gnu::always_inline]] static void store(Floats x, float* to) { _mm256_storeu_ps(to, x); }
  [[gnu::always_inline]] static Whole all(int32_t x) { return _mm256_set1_epi32(x); }
  [[gnu::always_inline]] static Floats all(float x) { return _mm256_set1_ps(x); }
};
#if defined(__AVX512VNNI__)
template <>
struct Eights<2> {
  using Whole = __m512i;
  using Floats = __m512;
  [[gnu::always_inline]] static Whole load(const __m256i (&from)[2]) {
    return _mm512_load_si512(from);
  }
  [[gnu::always_inline]] static Floats load(const __m256 (&from)[2]) {
    return _mm512_load_ps(from);
  }
  [[gnu::always_inline]] static void store(Floats x, float* to) { _mm512_storeu_ps(to, x); }
  [[gnu::always_inline]] static Whole all(int32_t x) { return _mm512_set1_epi32(x); }
  [[gnu::always_inline]] static Floats all(float x) { return _mm512_set1_ps(x); }
};
#endif
template <class Vector>
using EightsOf = Eights<sizeof(Vector) / 32>;

}  // namespace tensora::cpu::TENSORA_ISA

#endif

#pragma once

// load_tile and store_tile between bfloat16 and float by hand: the compiler's loops mask and
// compare more than they have to.

#include "tensora/backend/cpu/convert.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tensora::cpu::TENSORA_ISA {

#if defined(__AVX2__)
// Elements in a line of the cache, and how far ahead the next tile's are fetched: while a tile is
// computed with, memory would have nothing to do.
inline constexpr int64_t kLine = 32, kAhead = 1024;

#if defined(__AVX512F__)
// GCC 12 warns of the unmasked forms that their result may be used uninitialized.
inline constexpr __mmask16 kAllLanes = 0xffff;

inline void widen_line(const BFloat16* from, float* to) {
  for (int64_t k = 0; k < kLine; k += 16) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + k));
    const __m512i wide =
        _mm512_maskz_slli_epi32(kAllLanes, _mm512_maskz_cvtepu16_epi32(kAllLanes, bits), 16);
    _mm512_storeu_ps(to + k, _mm512_castsi512_ps(wide));
  }
}

// As BFloat16::encode, which explains the steps; the result is in the upper halves. One instruction
// passes all numbers but NaNs, for which it takes the first operand.
inline __m512i encode_bfloat16(__m512 value) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
  const __m512i raw =
      _mm512_castps_si512(_mm512_fixupimm_ps(nan, value, _mm512_set1_epi32(0x11111100), 0));
  const __mmask16 odd = _mm512_test_epi32_mask(raw, _mm512_set1_epi32(0x10000));
  const __m512i half = _mm512_add_epi32(raw, _mm512_set1_epi32(0x7fff));
  return _mm512_mask_add_epi32(half, odd, half, _mm512_set1_epi32(1));
}

// The elements of a line with even numbers, then those with odd ones: a number is the upper half of
// a float, and every other one already stands there.
inline void split_line(const BFloat16* from, float* to) {
  const __m512i line = _mm512_loadu_si512(from);
  _mm512_storeu_si512(to, _mm512_maskz_slli_epi32(kAllLanes, line, 16));
  _mm512_storeu_si512(to + 16, _mm512_and_si512(line, _mm512_set1_epi32(-0x10000)));
}
inline void join_line(const float* from, BFloat16* to) {
  const __m512i even = encode_bfloat16(_mm512_loadu_ps(from));
  const __m512i odd = encode_bfloat16(_mm512_loadu_ps(from + 16));
  constexpr __mmask32 kOdd = 0xaaaaaaaa;
  _mm512_storeu_si512(
      to, _mm512_mask_mov_epi16(_mm512_maskz_srli_epi32(kAllLanes, even, 16), kOdd, odd));
}

inline void narrow_line(const float* from, BFloat16* to) {
  alignas(64) static constexpr uint16_t kUpperHalves[32] = {
      1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
      33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  const __m512i low = encode_bfloat16(_mm512_loadu_ps(from));
  const __m512i high = encode_bfloat16(_mm512_loadu_ps(from + 16));
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(low, _mm512_load_si512(kUpperHalves), high));
}
#else
inline void widen_line(const BFloat16* from, float* to) {
  for (int64_t k = 0; k < kLine; k += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k));
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    _mm256_storeu_ps(to + k, _mm256_castsi256_ps(wide));
  }
}

// As BFloat16::encode, which explains the steps; the result is in the upper halves.
inline __m256i encode_bfloat16(__m256 value) {
  const __m256i raw = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(raw, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(raw, _mm256_set1_epi32(0x7fff));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(_mm256_add_epi32(half, odd), _mm256_set1_epi32(0x7fc00000), is_nan);
}

inline void narrow_line(const float* from, BFloat16* to) {
  for (int64_t k = 0; k < kLine; k += 16) {
    const __m256i low = _mm256_srli_epi32(encode_bfloat16(_mm256_loadu_ps(from + k)), 16);
    const __m256i high = _mm256_srli_epi32(encode_bfloat16(_mm256_loadu_ps(from + k + 8)), 16);
    const __m256i lanes = _mm256_packus_epi32(low, high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k), _mm256_permute4x64_epi64(lanes, 0xd8));
  }
}

// Of each half of a line the elements with even numbers, then those with odd ones: a number is the
// upper half of a float, and every other one already stands there.
inline void split_line(const BFloat16* from, float* to) {
  for (int64_t k = 0; k < kLine; k += 16) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + k));
    const __m256i odd = _mm256_and_si256(bits, _mm256_set1_epi32(-0x10000));
    _mm256_storeu_ps(to + k, _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)));
    _mm256_storeu_ps(to + k + 8, _mm256_castsi256_ps(odd));
  }
}
inline void join_line(const float* from, BFloat16* to) {
  for (int64_t k = 0; k < kLine; k += 16) {
    const __m256i even = _mm256_srli_epi32(encode_bfloat16(_mm256_loadu_ps(from + k)), 16);
    const __m256i odd = encode_bfloat16(_mm256_loadu_ps(from + k + 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k), _mm256_blend_epi16(even, odd, 0xaa));
  }
}
#endif

inline void load_bfloat16(const void* from, int64_t stride, int64_t n, void* to) {
  if (stride != 1) return load_tile<BFloat16, float>(from, stride, n, to);
  const BFloat16* const source = static_cast<const BFloat16*>(from);
  float* const target = static_cast<float*>(to);
  int64_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    __builtin_prefetch(source + i + kAhead);
    widen_line(source + i, target + i);
  }
  load_tile<BFloat16, float>(source + i, 1, n - i, target + i);
}

inline void store_bfloat16(const void* from, void* to, int64_t stride, int64_t n) {
  if (stride != 1) return store_tile<BFloat16, float>(from, to, stride, n);
  const float* const source = static_cast<const float*>(from);
  BFloat16* const target = static_cast<BFloat16*>(to);
  int64_t i = 0;
  for (; i + kLine <= n; i += kLine) narrow_line(source + i, target + i);
  store_tile<BFloat16, float>(source + i, target + i, 1, n - i);
}
#else
inline constexpr LoadFn load_bfloat16 = load_tile<BFloat16, float>;
inline constexpr StoreFn store_bfloat16 = store_tile<BFloat16, float>;
#endif

}  // namespace tensora::cpu::TENSORA_ISA

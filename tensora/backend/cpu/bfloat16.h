#pragma once

// load_tile and store_tile between bfloat16 and float by hand: the compiler's loops for AVX2 mask
// and compare more than they have to.

#include "tensora/backend/cpu/convert.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tensora::cpu::TENSORA_ISA {

#if defined(__AVX2__) && !defined(__AVX512F__)
// Elements in a line of the cache, and how far ahead the next tile's are fetched: while a tile is
// computed with, memory would have nothing to do.
inline constexpr int64_t kLine = 32, kAhead = 1024;

inline void load_bfloat16(const void* from, int64_t stride, int64_t n, void* to) {
  if (stride != 1) return load_tile<BFloat16, float>(from, stride, n, to);
  const BFloat16* const source = static_cast<const BFloat16*>(from);
  float* const target = static_cast<float*>(to);
  const auto widen = [&](int64_t at) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + at));
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    _mm256_storeu_ps(target + at, _mm256_castsi256_ps(wide));
  };
  int64_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    __builtin_prefetch(source + i + kAhead);
    for (int64_t k = 0; k < kLine; k += 8) widen(i + k);
  }
  for (; i + 8 <= n; i += 8) widen(i);
  for (; i < n; ++i) target[i] = source[i];
}

// As BFloat16::encode, which explains the steps.
inline __m256i encode_bfloat16(__m256 value) {
  const __m256i raw = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(raw, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(raw, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(half, odd), 16);
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), is_nan);
}

inline void store_bfloat16(const void* from, void* to, int64_t stride, int64_t n) {
  if (stride != 1) return store_tile<BFloat16, float>(from, to, stride, n);
  const float* const source = static_cast<const float*>(from);
  BFloat16* const target = static_cast<BFloat16*>(to);
  int64_t i = 0;
#pragma GCC unroll 2
  for (; i + 16 <= n; i += 16) {
    const __m256i low = encode_bfloat16(_mm256_loadu_ps(source + i));
    const __m256i high = encode_bfloat16(_mm256_loadu_ps(source + i + 8));
    const __m256i lanes = _mm256_packus_epi32(low, high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + i),
                        _mm256_permute4x64_epi64(lanes, 0xd8));
  }
  for (; i < n; ++i) target[i] = BFloat16(source[i]);
}
#else
inline constexpr LoadFn load_bfloat16 = load_tile<BFloat16, float>;
inline constexpr StoreFn store_bfloat16 = store_tile<BFloat16, float>;
#endif

}  // namespace tensora::cpu::TENSORA_ISA

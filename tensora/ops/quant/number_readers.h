#pragma once

// Internal header: a weight's numbers as floats, a vector at a time.

#include <cstring>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/blocks.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tensora::cpu::TENSORA_ISA {

#if defined(__AVX2__)
inline constexpr int kFloatLanes = 8;
#else
inline constexpr int kFloatLanes = 4;
#endif
using Lanes = float __attribute__((vector_size(kFloatLanes * sizeof(float))));

[[gnu::always_inline]] inline Lanes load_lanes(const float* from) {
  using Unaligned = float __attribute__((vector_size(kFloatLanes * sizeof(float)), aligned(4)));
  return *reinterpret_cast<const Unaligned*>(from);
}

/// The sums of the lanes of four vectors; each is the same whatever the other three are.
struct FourSums {
  float of[4];
};
[[gnu::always_inline]] inline FourSums sums_of(const Lanes (&x)[4]) {
  FourSums sums;
#if defined(__AVX2__)
  // As _mm256_hadd_ps adds, in half the time.
  const auto pairs_of = [](__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
  };
  const __m256 pairs = pairs_of(pairs_of(x[0], x[1]), pairs_of(x[2], x[3]));
  _mm_storeu_ps(sums.of,
                _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
#else
  for (int i = 0; i < 4; ++i) sums.of[i] = (x[i][0] + x[i][1]) + (x[i][2] + x[i][3]);
#endif
  return sums;
}
[[gnu::always_inline]] inline float sum_of(Lanes x) {
#if defined(__AVX2__)
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
#else
  return (x[0] + x[2]) + (x[1] + x[3]);
#endif
}

/// Rows of elements: `at` gives the numbers from k on, a multiple of kFloatLanes.
template <class T>
struct ElementReader {
  static constexpr bool kHasTail = true;  // rows of any length
  static constexpr int64_t kBytes = sizeof(T);

  [[gnu::always_inline]] static Lanes at(const uint8_t* row, int64_t k) {
#if defined(__AVX2__)
    return vector_at(row + k * kBytes);
#else
    T elements[kFloatLanes];
    std::memcpy(elements, row + k * kBytes, sizeof elements);
    Lanes result;
    for (int i = 0; i < kFloatLanes; ++i) result[i] = static_cast<float>(elements[i]);
    return result;
#endif
  }

 private:
#if defined(__AVX2__)
  [[gnu::always_inline]] static Lanes vector_at(const uint8_t* from) {
    const auto sixteen = [&] { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); };
    const auto eight = [&] { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)); };
    if constexpr (std::is_same_v<T, float>) {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
    } else if constexpr (std::is_same_v<T, Half>) {
      return _mm256_cvtph_ps(sixteen());
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(sixteen()), 16));
    } else if constexpr (std::is_same_v<T, int8_t>) {
      return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight()));
    } else {
      static_assert(std::is_same_v<T, Float8E4M3>);
      // The fields of a float16, whose exponent is 8 greater.
      const __m128i bits = _mm_cvtepu8_epi16(eight());
      const __m128i magnitude = _mm_and_si128(bits, _mm_set1_epi16(0x7f));
      const __m128i sign = _mm_slli_epi16(_mm_and_si128(bits, _mm_set1_epi16(0x80)), 8);
      const __m128i nan =
          _mm_and_si128(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f)), _mm_set1_epi16(0x7e00));
      const __m128i half = _mm_or_si128(_mm_or_si128(_mm_slli_epi16(magnitude, 7), nan), sign);
      return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256));
    }
  }
#endif
};

/// Rows of blocks, number by number.
template <class Block>
struct BlockReader {
  static constexpr bool kHasTail = false;
  static constexpr int64_t kBytes = 0;
  [[gnu::always_inline]] static Lanes at(const uint8_t* row, int64_t k) {
    const Block& block = reinterpret_cast<const Block*>(row)[k / Block::kNumbers];
    Lanes result;
    for (int i = 0; i < kFloatLanes; ++i)
      result[i] = block.number(static_cast<int>(k % Block::kNumbers) + i);
    return result;
  }
};

#if defined(__AVX2__)
template <>
struct BlockReader<BlockQ8_0> {
  static constexpr bool kHasTail = false;
  static constexpr int64_t kBytes = 0;
  [[gnu::always_inline]] static Lanes at(const uint8_t* row, int64_t k) {
    const BlockQ8_0& block = reinterpret_cast<const BlockQ8_0*>(row)[k / BlockQ8_0::kNumbers];
    const auto* q = reinterpret_cast<const __m128i*>(block.q + k % BlockQ8_0::kNumbers);
    const __m256 whole = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(q)));
    return _mm256_mul_ps(whole, _mm256_set1_ps(static_cast<float>(block.scale)));
  }
};
template <>
struct BlockReader<BlockNF4> {
  static constexpr bool kHasTail = false;
  static constexpr int64_t kBytes = 0;
  [[gnu::always_inline]] static Lanes at(const uint8_t* row, int64_t k) {
    const BlockNF4& block = reinterpret_cast<const BlockNF4*>(row)[k / BlockNF4::kNumbers];
    int32_t four;
    std::memcpy(&four, block.q + k % BlockNF4::kNumbers / 2, sizeof four);
    const __m256i shifts = _mm256_setr_epi32(4, 0, 12, 8, 20, 16, 28, 24);
    const __m256i index = _mm256_srlv_epi32(_mm256_set1_epi32(four), shifts);
    const auto v = [](int i) { return BlockNF4::value(i); };
    const __m256 low = _mm256_setr_ps(v(0), v(1), v(2), v(3), v(4), v(5), v(6), v(7));
    const __m256 high = _mm256_setr_ps(v(8), v(9), v(10), v(11), v(12), v(13), v(14), v(15));
    // Permutations look at the low three bits, the choice between them at bit 3.
    const __m256 number = _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index),
                                           _mm256_permutevar8x32_ps(high, index),
                                           _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
    return _mm256_mul_ps(number, _mm256_set1_ps(static_cast<float>(block.scale)));
  }
};
#endif

/// The last numbers of a row of elements, and zeros.
template <class Reader>
[[gnu::always_inline]] inline Lanes read_tail(const uint8_t* row, int64_t k, int64_t columns) {
  if constexpr (!Reader::kHasTail) {
    return Reader::at(row, k);
  } else {
    uint8_t padded[static_cast<size_t>(kFloatLanes * Reader::kBytes)] = {};
    if (k < columns)
      std::memcpy(padded, row + k * Reader::kBytes,
                  static_cast<size_t>((columns - k) * Reader::kBytes));
    return Reader::at(padded, 0);
  }
}

/// Numbers begin to begin + count of a row, and zeros up to a multiple of 16.
template <class Reader>
void read_numbers(const uint8_t* row, int64_t begin, int64_t count, float* to) {
  int64_t k = 0;
  for (; k + kFloatLanes <= count; k += kFloatLanes) {
    const Lanes lanes = Reader::at(row, begin + k);
    std::memcpy(to + k, &lanes, sizeof lanes);
  }
  for (; k < (count + 15) / 16 * 16; k += kFloatLanes) {
    const Lanes lanes = k < count ? read_tail<Reader>(row, begin + k, begin + count) : Lanes{};
    std::memcpy(to + k, &lanes, sizeof lanes);
  }
}

/// Calls `body` with the reader of a weight's dtype.
template <class Body>
void visit_reader(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::float32:
      return body.template operator()<ElementReader<float>>();
    case DType::float16:
      return body.template operator()<ElementReader<Half>>();
    case DType::bfloat16:
      return body.template operator()<ElementReader<BFloat16>>();
    case DType::int8:
      return body.template operator()<ElementReader<int8_t>>();
    case DType::float8_e4m3fn:
      return body.template operator()<ElementReader<Float8E4M3>>();
    default:
      visit_block(dtype, [&]<class Block>() { body.template operator()<BlockReader<Block>>(); });
  }
}

}  // namespace tensora::cpu::TENSORA_ISA

#pragma once

// Internal header: how each block format is read for products with activations of 8 bits, on
// processors with AVX2. See Note [Products in chunks] in quant_products.h.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tensora/core/dtype.h"

#if defined(__AVX2__)
#include <immintrin.h>

namespace tensora::cpu::TENSORA_ISA {

inline constexpr int kChunk = 256, kParts = kChunk / 32;

/// 256 numbers whose every 32 have a scale d and an offset m: x = d * q + m.
struct FineChunk {
  __m256i q[kParts];
  __m256 d, m;
};
/// 256 numbers with a common scale, and a whole factor for every 16: x = d * (s * q - t), or
/// x = d * s * q - e * t where `e` is there.
struct CoarseChunk {
  __m256i q[kParts];
  __m256i s[kParts];  // 16 times int16: the factor of each of the part's halves, 8 times
  __m256i t;          // 16 times int16: of the groups of 16 in their order
  float d, e;
};

namespace chunks {

[[gnu::always_inline]] inline __m128i load16(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
[[gnu::always_inline]] inline __m256i load32(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
template <class T>
[[gnu::always_inline]] inline T load_as(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
[[gnu::always_inline]] inline float half_at(const uint8_t* from) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(load_as<uint16_t>(from))));
}
/// The address of block i of eight. Written so that a loop over blocks needs few registers.
[[gnu::always_inline]] inline const uint8_t* block(const uint8_t* from, int64_t stride, int i) {
  if (i == 6) return from + 2 * (3 * stride);
  return i < 3 ? from + i * stride : from + 3 * stride + (i - 3) * stride;
}
/// The float16 numbers at which eight blocks begin, joined outside of the vector unit, which most
/// formats keep busy enough.
[[gnu::always_inline]] inline __m256 halves_at(const uint8_t* from, int64_t stride) {
  const auto four = [&](int first) {
    const auto one = [&](int i) {
      uint64_t bits = load_as<uint16_t>(block(from, stride, first + i));
      asm("" : "+r"(bits));  // compilers would join them in the vector unit
      return bits << 16 * i;
    };
    return static_cast<int64_t>((one(0) | one(1)) | (one(2) | one(3)));
  };
  return _mm256_cvtph_ps(_mm_set_epi64x(four(4), four(0)));
}
/// The same in the vector unit: word i of 16 bytes that begin 2 i bytes before block i, which is
/// never before block 0.
[[gnu::always_inline]] inline __m256 blended_halves_at(const uint8_t* from, int64_t stride) {
  const auto words = [&](int i) { return load16(block(from, stride, i) - 2 * i); };
  __m128i low = words(0), high = words(4);
  low = _mm_blend_epi16(low, words(1), 1 << 1);
  low = _mm_blend_epi16(low, words(2), 1 << 2);
  low = _mm_blend_epi16(low, words(3), 1 << 3);
  high = _mm_blend_epi16(high, words(5), 1 << 5);
  high = _mm_blend_epi16(high, words(6), 1 << 6);
  high = _mm_blend_epi16(high, words(7), 1 << 7);
  return _mm256_cvtph_ps(_mm_blend_epi16(low, high, 0xf0));
}
/// The low halves of 16 bytes, then the high ones.
[[gnu::always_inline]] inline __m256i nibbles(const uint8_t* from) {
  const __m256i shifts = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
  const __m256i both = _mm256_broadcastsi128_si256(load16(from));
  return _mm256_and_si256(_mm256_srlv_epi32(both, shifts), _mm256_set1_epi8(15));
}
/// 16 in the bytes whose bit of the 32 is set.
[[gnu::always_inline]] inline __m256i fifth_bits(uint32_t bits) {
  const __m256i spread =
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i each = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int32_t>(bits)), spread);
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, each), each);
  return _mm256_and_si256(set, _mm256_set1_epi8(16));
}
/// Bits `shift` and up of each byte, as many as `mask` has.
template <int shift, int mask>
[[gnu::always_inline]] inline __m256i bits_of(__m256i bytes) {
  return _mm256_and_si256(_mm256_srli_epi16(bytes, shift), _mm256_set1_epi8(mask));
}
/// The sixteen values of IQ4_NL and IQ4_XS.
[[gnu::always_inline]] inline __m256i stepped_values(__m256i indices) {
  const __m128i table =
      _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), indices);
}

}  // namespace chunks

// ---- formats with a scale for 32 numbers -------------------------------------------------------

// `kSigned`: q may be negative; `kLargest`: its magnitude. `kOffset`: m is not zero; `kShift`: it
// is so many times -d, and left out. Blocks lie `stride` bytes apart: those of a row, or of a
// column.

struct ChunksQ4_0 {
  using Chunk = FineChunk;
  static constexpr int kBytes = 18, kLargest = 15;
  static constexpr bool kSigned = false, kOffset = true;
  static constexpr float kShift = 8;
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to, int64_t stride = kBytes) {
    to.d = chunks::halves_at(from, stride);
    for (int i = 0; i < kParts; ++i) to.q[i] = chunks::nibbles(chunks::block(from, stride, i) + 2);
  }
};
struct ChunksQ4_1 {
  using Chunk = FineChunk;
  static constexpr int kBytes = 20, kLargest = 15;
  static constexpr bool kSigned = false, kOffset = true;
  static constexpr float kShift = 0;
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to, int64_t stride = kBytes) {
    to.d = chunks::halves_at(from, stride);
    to.m = chunks::halves_at(from + 2, stride);
    for (int i = 0; i < kParts; ++i) to.q[i] = chunks::nibbles(from + i * stride + 4);
  }
};
struct ChunksQ5_0 {
  using Chunk = FineChunk;
  static constexpr int kBytes = 22, kLargest = 31;
  static constexpr bool kSigned = false, kOffset = true;
  static constexpr float kShift = 16;
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to, int64_t stride = kBytes) {
    to.d = chunks::halves_at(from, stride);
    for (int i = 0; i < kParts; ++i) {
      const uint8_t* block = chunks::block(from, stride, i);
      to.q[i] = _mm256_or_si256(chunks::nibbles(block + 6),
                                chunks::fifth_bits(chunks::load_as<uint32_t>(block + 2)));
    }
  }
};
struct ChunksQ5_1 {
  using Chunk = FineChunk;
  static constexpr int kBytes = 24, kLargest = 31;
  static constexpr bool kSigned = false, kOffset = true;
  static constexpr float kShift = 0;
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to, int64_t stride = kBytes) {
    to.d = chunks::halves_at(from, stride);
    to.m = chunks::halves_at(from + 2, stride);
    for (int i = 0; i < kParts; ++i) {
      const uint8_t* block = chunks::block(from, stride, i);
      to.q[i] = _mm256_or_si256(chunks::nibbles(block + 8),
                                chunks::fifth_bits(chunks::load_as<uint32_t>(block + 4)));
    }
  }
};
struct ChunksQ8_0 {
  using Chunk = FineChunk;
  static constexpr int kBytes = 34, kLargest = 128;
  static constexpr bool kSigned = true, kOffset = false;
  static constexpr float kShift = 0;
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to, int64_t stride = kBytes) {
    // A row's blocks have a stride that the compiler knows; blending is faster for a column's.
    to.d = __builtin_constant_p(stride) ? chunks::halves_at(from, stride)
                                        : chunks::blended_halves_at(from, stride);
    for (int i = 0; i < kParts; ++i) to.q[i] = chunks::load32(chunks::block(from, stride, i) + 2);
  }
};
struct ChunksIQ4_NL {
  using Chunk = FineChunk;
  static constexpr int kBytes = 18, kLargest = 127;
  static constexpr bool kSigned = true, kOffset = false;
  static constexpr float kShift = 0;
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to, int64_t stride = kBytes) {
    to.d = chunks::halves_at(from, stride);
    for (int i = 0; i < kParts; ++i)
      to.q[i] = chunks::stepped_values(chunks::nibbles(chunks::block(from, stride, i) + 2));
  }
};
struct ChunksMXFP4 {
  using Chunk = FineChunk;
  static constexpr int kBytes = 17, kLargest = 12;
  static constexpr bool kSigned = true, kOffset = false;
  static constexpr float kShift = 0;
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to, int64_t stride = kBytes) {
    // Twice the numbers, and half their scales, which are powers of two; see BlockMXFP4.
    const __m128i doubled = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const auto exponent = [&](int i) { return static_cast<int>(from[i * stride]); };
    const __m256i e = _mm256_setr_epi32(exponent(0), exponent(1), exponent(2), exponent(3),
                                        exponent(4), exponent(5), exponent(6), exponent(7));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
    const __m256i is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
    const __m256i is_nan = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255));
    to.d = _mm256_castsi256_ps(
        _mm256_or_si256(_mm256_blendv_epi8(subnormal, normal, is_normal), is_nan));
    for (int i = 0; i < kParts; ++i)
      to.q[i] = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(doubled),
                                    chunks::nibbles(chunks::block(from, stride, i) + 1));
  }
};
/// Rows of int8; their scale is the row's.
struct ChunksInt8 {
  using Chunk = FineChunk;
  static constexpr int kBytes = 32, kLargest = 128;
  static constexpr bool kSigned = true, kOffset = false;
  static constexpr float kShift = 0;
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to, int64_t stride = kBytes) {
    to.d = _mm256_set1_ps(1);
    for (int i = 0; i < kParts; ++i) to.q[i] = chunks::load32(chunks::block(from, stride, i));
  }
};

// ---- formats with a scale for 256 numbers ------------------------------------------------------

// `kOffset`: t is not zero; `kOwnOffset`: it has a scale of its own, e. `factors`: s of the groups
// of 16 as bytes; `kSharedFactors` neighbouring groups have the same.

namespace chunks {

/// Factors of groups of 16, from bytes.
[[gnu::always_inline]] inline void spread_factors(__m128i factors, __m256i (&s)[kParts]) {
  for (int i = 0; i < kParts; ++i) {
    const __m128i pattern =
        _mm_set_epi64x(0x0101010101010101 * (2 * i + 1), 0x0101010101010101 * (2 * i));
    s[i] = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(factors, pattern));
  }
}

/// The eight scales and lows of six bits of Q4_K and Q5_K, as bytes.
struct SixBits {
  __m128i scales, lows;
};
[[gnu::always_inline]] inline SixBits six_bits(const uint8_t* from) {
  const uint32_t a = load_as<uint32_t>(from), b = load_as<uint32_t>(from + 4),
                 c = load_as<uint32_t>(from + 8);
  constexpr uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x30303030;
  const auto pair = [](uint32_t low, uint32_t high) {
    return _mm_cvtsi64_si128(static_cast<int64_t>(uint64_t{high} << 32 | low));
  };
  return {pair(a & kSix, (c & kFour) | (a >> 2 & kTwo)),
          pair(b & kSix, (c >> 4 & kFour) | (b >> 2 & kTwo))};
}
/// The factors of groups of 32, and the offsets for both halves of each.
[[gnu::always_inline]] inline void spread_six_bits(const uint8_t* from, CoarseChunk& to) {
  const SixBits bits = six_bits(from);
  const __m256i scales = _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(bits.scales));
  for (int i = 0; i < kParts; ++i)
    to.s[i] =
        _mm256_shuffle_epi8(scales, _mm256_set1_epi16(static_cast<int16_t>(0x0100 + 0x0202 * i)));
  to.t = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(bits.lows, bits.lows));
}

}  // namespace chunks

struct ChunksQ4_K {
  using Chunk = CoarseChunk;
  static constexpr int kBytes = 144, kLargest = 15;
  static constexpr bool kSigned = false, kOffset = true, kOwnOffset = true;
  static constexpr int kSharedFactors = 2;
  [[gnu::always_inline]] static __m128i factors(const uint8_t* from) {
    const __m128i scales = chunks::six_bits(from + 4).scales;
    return _mm_unpacklo_epi8(scales, scales);
  }
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to) {
    to.d = chunks::half_at(from);
    to.e = chunks::half_at(from + 2);
    chunks::spread_six_bits(from + 4, to);
    for (int k = 0; k < 4; ++k) {
      const __m256i both = chunks::load32(from + 16 + k * 32);
      to.q[2 * k] = chunks::bits_of<0, 15>(both);
      to.q[2 * k + 1] = chunks::bits_of<4, 15>(both);
    }
  }
};
struct ChunksQ5_K {
  using Chunk = CoarseChunk;
  static constexpr int kBytes = 176, kLargest = 31;
  static constexpr bool kSigned = false, kOffset = true, kOwnOffset = true;
  static constexpr int kSharedFactors = 2;
  [[gnu::always_inline]] static __m128i factors(const uint8_t* from) {
    const __m128i scales = chunks::six_bits(from + 4).scales;
    return _mm_unpacklo_epi8(scales, scales);
  }
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to) {
    to.d = chunks::half_at(from);
    to.e = chunks::half_at(from + 2);
    chunks::spread_six_bits(from + 4, to);
    const __m256i high = chunks::load32(from + 16);
    const auto fifth = [&](int bit) {
      // Bit `bit` of each byte moves to place 4.
      const __m256i moved =
          bit < 4 ? _mm256_slli_epi16(high, 4 - bit) : _mm256_srli_epi16(high, bit - 4);
      return _mm256_and_si256(moved, _mm256_set1_epi8(16));
    };
    for (int k = 0; k < 4; ++k) {
      const __m256i both = chunks::load32(from + 48 + k * 32);
      to.q[2 * k] = _mm256_or_si256(chunks::bits_of<0, 15>(both), fifth(2 * k));
      to.q[2 * k + 1] = _mm256_or_si256(chunks::bits_of<4, 15>(both), fifth(2 * k + 1));
    }
  }
};
struct ChunksQ6_K {
  using Chunk = CoarseChunk;
  static constexpr int kBytes = 210, kLargest = 63;
  static constexpr bool kSigned = false, kOffset = true, kOwnOffset = false;
  static constexpr int kSharedFactors = 1;
  [[gnu::always_inline]] static __m128i factors(const uint8_t* from) {
    return chunks::load16(from + 192);
  }
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to) {
    to.d = chunks::half_at(from + 208);
    const __m128i factors = chunks::load16(from + 192);
    chunks::spread_factors(factors, to.s);
    to.t = _mm256_slli_epi16(_mm256_cvtepi8_epi16(factors), 5);
    for (int h = 0; h < 2; ++h) {
      const __m256i first = chunks::load32(from + h * 64),
                    second = chunks::load32(from + h * 64 + 32);
      const __m256i high = chunks::load32(from + 128 + h * 32);
      const __m256i two = _mm256_set1_epi8(48);
      const auto joined = [&](__m256i low, __m256i moved) {
        return _mm256_or_si256(low, _mm256_and_si256(moved, two));
      };
      to.q[4 * h] = joined(chunks::bits_of<0, 15>(first), _mm256_slli_epi16(high, 4));
      to.q[4 * h + 1] = joined(chunks::bits_of<0, 15>(second), _mm256_slli_epi16(high, 2));
      to.q[4 * h + 2] = joined(chunks::bits_of<4, 15>(first), high);
      to.q[4 * h + 3] = joined(chunks::bits_of<4, 15>(second), _mm256_srli_epi16(high, 2));
    }
  }
};
struct ChunksQ2_K {
  using Chunk = CoarseChunk;
  static constexpr int kBytes = 84, kLargest = 3;
  static constexpr bool kSigned = false, kOffset = true, kOwnOffset = true;
  static constexpr int kSharedFactors = 1;
  [[gnu::always_inline]] static __m128i factors(const uint8_t* from) {
    return _mm_and_si128(chunks::load16(from), _mm_set1_epi8(15));
  }
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to) {
    to.d = chunks::half_at(from + 80);
    to.e = chunks::half_at(from + 82);
    const __m128i both = chunks::load16(from);
    chunks::spread_factors(_mm_and_si128(both, _mm_set1_epi8(15)), to.s);
    to.t = _mm256_cvtepu8_epi16(_mm_and_si128(_mm_srli_epi16(both, 4), _mm_set1_epi8(15)));
    for (int h = 0; h < 2; ++h) {
      const __m256i planes = chunks::load32(from + 16 + h * 32);
      to.q[4 * h] = chunks::bits_of<0, 3>(planes);
      to.q[4 * h + 1] = chunks::bits_of<2, 3>(planes);
      to.q[4 * h + 2] = chunks::bits_of<4, 3>(planes);
      to.q[4 * h + 3] = chunks::bits_of<6, 3>(planes);
    }
  }
};
struct ChunksQ3_K {
  using Chunk = CoarseChunk;
  static constexpr int kBytes = 110, kLargest = 7;
  static constexpr bool kSigned = false, kOffset = true, kOwnOffset = false;
  static constexpr int kSharedFactors = 1;
  /// Six bits, less 32.
  [[gnu::always_inline]] static __m128i factors(const uint8_t* from) {
    const uint64_t low = chunks::load_as<uint64_t>(from + 96);
    const uint32_t high = chunks::load_as<uint32_t>(from + 104);
    constexpr uint64_t kLow = 0x0f0f0f0f0f0f0f0f;
    const auto two = [&](int shift) { return uint64_t{(high >> shift) & 0x03030303u} << 4; };
    const uint64_t first = (low & kLow) | two(0) | two(2) << 32;
    const uint64_t second = (low >> 4 & kLow) | two(4) | two(6) << 32;
    const __m128i all = _mm_set_epi64x(static_cast<int64_t>(second), static_cast<int64_t>(first));
    return _mm_sub_epi8(all, _mm_set1_epi8(32));
  }
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to) {
    to.d = chunks::half_at(from + 108);
    const __m128i scales = factors(from);
    chunks::spread_factors(scales, to.s);
    to.t = _mm256_slli_epi16(_mm256_cvtepi8_epi16(scales), 2);
    const __m256i third = chunks::load32(from);
    const auto bit_as_4 = [&](int bit) {
      const __m256i moved =
          bit < 2 ? _mm256_slli_epi16(third, 2 - bit) : _mm256_srli_epi16(third, bit - 2);
      return _mm256_and_si256(moved, _mm256_set1_epi8(4));
    };
    for (int h = 0; h < 2; ++h) {
      const __m256i planes = chunks::load32(from + 32 + h * 32);
      to.q[4 * h] = _mm256_or_si256(chunks::bits_of<0, 3>(planes), bit_as_4(4 * h));
      to.q[4 * h + 1] = _mm256_or_si256(chunks::bits_of<2, 3>(planes), bit_as_4(4 * h + 1));
      to.q[4 * h + 2] = _mm256_or_si256(chunks::bits_of<4, 3>(planes), bit_as_4(4 * h + 2));
      to.q[4 * h + 3] = _mm256_or_si256(chunks::bits_of<6, 3>(planes), bit_as_4(4 * h + 3));
    }
  }
};
struct ChunksIQ4_XS {
  using Chunk = CoarseChunk;
  static constexpr int kBytes = 136, kLargest = 127;
  static constexpr bool kSigned = true, kOffset = false, kOwnOffset = false;
  static constexpr int kSharedFactors = 2;
  [[gnu::always_inline]] static int factor(const uint8_t* from, int i) {
    const uint32_t high = chunks::load_as<uint16_t>(from + 2);
    const uint32_t low = from[4 + i / 2] >> i % 2 * 4 & 15u;
    return static_cast<int>(low | (high >> 2 * i & 3u) << 4) - 32;
  }
  [[gnu::always_inline]] static __m128i factors(const uint8_t* from) {
    uint64_t bytes = 0;
    for (int i = 0; i < kParts; ++i)
      bytes |= uint64_t{static_cast<uint8_t>(factor(from, i))} << 8 * i;
    const __m128i each = _mm_cvtsi64_si128(static_cast<int64_t>(bytes));
    return _mm_unpacklo_epi8(each, each);
  }
  [[gnu::always_inline]] static void read(const uint8_t* from, Chunk& to) {
    to.d = chunks::half_at(from);
    for (int i = 0; i < kParts; ++i) {
      to.s[i] = _mm256_set1_epi16(static_cast<int16_t>(factor(from, i)));
      to.q[i] = chunks::stepped_values(chunks::nibbles(from + 8 + i * 16));
    }
  }
};

template <class Type>
inline constexpr bool is_fine = std::is_same_v<typename Type::Chunk, FineChunk>;
/// Whether offsets are read.
template <class Type>
inline constexpr bool has_offsets = Type::kOffset && Type::kShift == 0;
/// Of 256 numbers in memory.
template <class Type>
inline constexpr int chunk_bytes = is_fine<Type> ? kParts * Type::kBytes : Type::kBytes;

}  // namespace tensora::cpu::TENSORA_ISA

#endif

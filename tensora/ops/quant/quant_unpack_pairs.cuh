#pragma once

// Internal header
// Weights of the block formats as 16-bit numbers with their scales.

#include "tensora/ops/quant/quant_row_parts.cuh"

// Note [Unpacking in pairs]
// Numbers become operands two at a time, in bfloat16 arithmetic. What a format's numbers are too
// large by (Note [Numbers as operands]) is a whole number, and subtracting it is exact. The scale,
// and what affine formats subtract, are rounded to bfloat16: each by as much as the result.

namespace tensora::cuda {

/// a * b + c of two bfloat16 each.
__device__ inline unsigned fma_pairs(unsigned a, unsigned b, unsigned c) {
  unsigned result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
inline constexpr unsigned kOnePair = 0x3f803f80u, kZeroPair = 0x80008000u;

/// What numbers of a tile are too large by, and whether their groups subtract something more.
template <class Tile>
struct TileZero {
  static constexpr unsigned kNumber = 128;
  static constexpr bool kAffine = true;
};
template <int bytes, int align, bool five, bool affine>
struct TileZero<TileNibbles<bytes, align, five, affine>> {
  static constexpr unsigned kNumber = affine ? 128 : five ? 144 : 136;
  static constexpr bool kAffine = affine;
};
template <>
struct TileZero<TileQ6_K> {
  static constexpr unsigned kNumber = 160;
  static constexpr bool kAffine = false;
};
template <>
struct TileZero<TileQ3_K> {
  static constexpr unsigned kNumber = 132;
  static constexpr bool kAffine = false;
};
template <>
struct TileZero<TileQ8_0> {
  static constexpr unsigned kNumber = 128 + 2048 + 128;
  static constexpr bool kAffine = false;
};

/// The negative of a whole number of up to eight significant bits, twice, as bfloat16.
constexpr unsigned minus_pair(unsigned number) {
  unsigned exponent = 0;
  while (number >> exponent > 1) ++exponent;
  const unsigned bits = 0x8000u | (127 + exponent) << 7 | ((number << 7 >> exponent) & 127);
  return bits << 16 | bits;
}

/// The factors of a group as one word, scale first, for the lanes that need them.
template <class Tile>
__device__ inline unsigned packed_factors(float scale, float low) {
  constexpr auto kNumber = static_cast<float>(TileZero<Tile>::kNumber);
  return round_pair<BFloat16>(scale, TileZero<Tile>::kAffine ? fmaf(scale, kNumber, -low) : 0.0f);
}

/// Two neighbours of a weight row as an operand.
template <class Tile>
__device__ inline unsigned unpacked_pair(const unsigned (&terms)[Tile::kTerms], unsigned factors) {
  using Zero = TileZero<Tile>;
  if constexpr (!Tile::kScaled && Tile::kCentred) return terms[0];
  const unsigned scale = __byte_perm(factors, 0, 0x1010);
  unsigned number = terms[0];
  if constexpr (Tile::kTerms == 2 && Tile::kCentred) {  // a table's values and what they lack
    return fma_pairs(number, scale, fma_pairs(terms[1], scale, kZeroPair));
  } else if constexpr (Tile::kTerms == 2) {  // bytes, in two terms
    number = fma_pairs(fma_pairs(terms[0], kOnePair, minus_pair(128)), kOnePair,
                       fma_pairs(terms[1], kOnePair, minus_pair(2048 + 128)));
  } else if constexpr (!Tile::kCentred) {
    number = fma_pairs(number, kOnePair, minus_pair(Zero::kNumber));
  }
  if constexpr (!Tile::kScaled) return number;
  if constexpr (!Tile::kCentred && Zero::kAffine)
    return fma_pairs(number, scale, __byte_perm(factors, 0, 0x3232));
  else
    return fma_pairs(number, scale, kZeroPair);
}

}  // namespace tensora::cuda

#pragma once

// The 8-bit float types, as storage formats: values are converted to float and back, with
// PyTorch's rounding. No include but this project's own, because the text is also compiled by
// NVRTC.

#include "tensora/base/half.h"

namespace tensora {

// Rounds |value| to the nearest number of a format with that many fraction bits, ties to even. The
// result is the number's bit pattern without the sign, and may exceed that of the largest number. A
// value below the smallest normal number is lined up at the right bit by an addition, and the float
// adder rounds.
template <int fraction_bits, int bias>
TENSORA_HD inline unsigned float8_magnitude(float value) {
  constexpr int shift = 23 - fraction_bits;
  const unsigned magnitude = bits_of(value) & 0x7fffffffu;
  if (magnitude < static_cast<unsigned>(128 - bias) << 23) {
    constexpr unsigned aligner = static_cast<unsigned>(127 + 24 - bias - fraction_bits) << 23;
    return bits_of(float_of(magnitude) + float_of(aligner)) - aligner;
  }
  const unsigned rounded = magnitude + ((1u << (shift - 1)) - 1) + ((magnitude >> shift) & 1u);
  return (rounded >> shift) - (static_cast<unsigned>(127 - bias) << fraction_bits);
}

/// 4 exponent bits, 3 fraction bits, no infinity: overflow and infinities become the largest
/// number, 448.
struct Float8E4M3 {
  unsigned char bits;

  Float8E4M3() = default;
  TENSORA_HD explicit Float8E4M3(float value) : bits(encode(value)) {}
  TENSORA_HD operator float() const {
    // As in Half::decode: the exponent is 120 too small until the multiplication.
    const unsigned magnitude = static_cast<unsigned>(bits & 0x7fu) << 20;
    float value = float_of(magnitude) * float_of(0x7b800000u);
    if ((bits & 0x7fu) == 0x7fu) value = float_of(0x7fc00000u);
    return float_of(bits_of(value) | (static_cast<unsigned>(bits & 0x80u) << 24));
  }
  TENSORA_HD static unsigned char encode(float value) {
    const unsigned sign = (bits_of(value) >> 24) & 0x80u;
    if (value != value) return static_cast<unsigned char>(sign | 0x7fu);
    const unsigned magnitude = float8_magnitude<3, 7>(value);
    return static_cast<unsigned char>(sign | (magnitude < 0x7eu ? magnitude : 0x7eu));
  }
};

/// 5 exponent bits, 2 fraction bits: the upper byte of a Half. Overflows to infinity.
struct Float8E5M2 {
  unsigned char bits;

  Float8E5M2() = default;
  TENSORA_HD explicit Float8E5M2(float value) : bits(encode(value)) {}
  TENSORA_HD operator float() const { return Half::decode(static_cast<unsigned short>(bits << 8)); }
  TENSORA_HD static unsigned char encode(float value) {
    const unsigned sign = (bits_of(value) >> 24) & 0x80u;
    if (value != value) return static_cast<unsigned char>(sign | 0x7fu);
    const unsigned magnitude = float8_magnitude<2, 15>(value);
    return static_cast<unsigned char>(sign | (magnitude < 0x7cu ? magnitude : 0x7cu));
  }
};

}  // namespace tensora

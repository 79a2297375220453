#pragma once

// The 16-bit float types, as storage formats: arithmetic happens in float. No include but this
// project's own and no library call, because the text is also compiled by NVRTC.

#include "tensora/base/host_device.h"

namespace tensora {

TENSORA_HD inline unsigned bits_of(float value) { return __builtin_bit_cast(unsigned, value); }
TENSORA_HD inline float float_of(unsigned bits) { return __builtin_bit_cast(float, bits); }

/// IEEE 754 binary16: 5 exponent bits, 10 fraction bits.
struct Half {
  unsigned short bits;

  Half() = default;
  TENSORA_HD explicit Half(float value) : bits(encode(value)) {}
  TENSORA_HD operator float() const { return decode(bits); }

  TENSORA_HD static float decode(unsigned short half) {
#if defined(__CUDA_ARCH__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
#elif defined(__F16C__)
    typedef short Lanes __attribute__((vector_size(16)));
    return __builtin_ia32_vcvtph2ps(Lanes{static_cast<short>(half)})[0];
#else
    // Shifting exponent and fraction into place leaves the exponent 112 too small; a multiplication
    // by 2^112 corrects it and normalises subnormals in the same step.
    const unsigned magnitude = static_cast<unsigned>(half & 0x7fffu) << 13;
    float value = float_of(magnitude) * float_of(0x77800000u);
    if ((half & 0x7c00u) == 0x7c00u) value = float_of(magnitude | 0x7f800000u);
    return float_of(bits_of(value) | (static_cast<unsigned>(half & 0x8000u) << 16));
#endif
  }

  TENSORA_HD static unsigned short encode(float value) {
#if defined(__CUDA_ARCH__)
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#elif defined(__F16C__)
    typedef float Lanes __attribute__((vector_size(16)));
    return static_cast<unsigned short>(__builtin_ia32_vcvtps2ph(Lanes{value}, 0)[0]);
#else
    constexpr unsigned float_infinity = 0x7f800000u, half_infinity = 0x7c00u, half_nan = 0x7e00u;
    constexpr unsigned overflow = 0x477ff000u;  // 65520, the smallest that rounds to infinity
    constexpr unsigned normal = 0x38800000u;    // 2^-14, the smallest normal number
    const unsigned sign = (bits_of(value) >> 16) & 0x8000u;
    const unsigned magnitude = bits_of(value) & 0x7fffffffu;
    if (magnitude > float_infinity) return static_cast<unsigned short>(sign | half_nan);
    if (magnitude >= overflow) return static_cast<unsigned short>(sign | half_infinity);
    if (magnitude < normal) {
      // Subnormal: adding 0.5 lines the fraction up at the right bit, and the float adder rounds.
      const float aligned = float_of(magnitude) + 0.5f;
      return static_cast<unsigned short>(sign | (bits_of(aligned) - 0x3f000000u));
    }
    const unsigned rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);  // to nearest even
    return static_cast<unsigned short>(sign | ((rounded - 0x38000000u) >> 13));
#endif
  }
};

/// bfloat16: the upper half of a float.
struct BFloat16 {
  unsigned short bits;

  BFloat16() = default;
  TENSORA_HD explicit BFloat16(float value) : bits(encode(value)) {}
  TENSORA_HD operator float() const { return float_of(static_cast<unsigned>(bits) << 16); }

  TENSORA_HD static unsigned short encode(float value) {
    const unsigned raw = bits_of(value);
    const unsigned rounded = (raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16;  // to nearest even
    constexpr unsigned infinity = 0x7f800000u, nan = 0x7fc0u;             // of float, of bfloat16
    const bool is_nan = (raw & 0x7fffffffu) > infinity;
    return static_cast<unsigned short>(is_nan ? nan : rounded);
  }
};

}  // namespace tensora

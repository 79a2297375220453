#pragma once

// Internal header
// The distributions, each as a function from a counter's four random words to four or two values.
// Compiled for the host, by nvcc and by NVRTC.
//
// Note [Same numbers everywhere]
// Every value is computed from integers by additions, multiplications, divisions and square roots
// alone, each rounded once as IEEE 754 demands; no library function is used. What could still
// differ is whether a compiler contracts a multiplication and an addition into one rounding (FMA).
// The sources that include this header are therefore compiled with -ffp-contract=off, and in CUDA
// `product` is a multiplication that is never contracted. So float32 and float64 results are the
// same bits on every CPU, with every instruction set and number of threads, and in CUDA unless it
// is compiled with -use_fast_math.

#include "tensora/base/half.h"
#include "tensora/core/philox.h"

namespace tensora {

/// a * b, rounded before anything is added to it.
TENSORA_HD inline float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
TENSORA_HD inline double product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

namespace random_detail {

TENSORA_HD inline unsigned long long bits_of(double value) {
  return __builtin_bit_cast(unsigned long long, value);
}
TENSORA_HD inline double double_of(unsigned long long bits) {
  return __builtin_bit_cast(double, bits);
}

// The quotient and the square root as IEEE 754 demands. Where the operands are known to be far from
// the ends of their range, CUDA needs no test for them: an approximation, corrected by its
// remainder, is rounded right.
/// a / b for b in [1/2, 4) and a in [-1, 1] that is 0 or at least 2^-32.
TENSORA_HD inline float quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  inverse = __fmaf_rn(inverse, __fmaf_rn(-b, inverse, 1.f), inverse);
  const float near = __fmul_rn(a, inverse);
  return __fmaf_rn(inverse, __fmaf_rn(-b, near, a), near);
#else
  return a / b;
#endif
}
/// Of 0 or a value in [2^-32, 2^32].
TENSORA_HD inline float square_root(float value) {
#if defined(__CUDA_ARCH__)
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(value));
  const float near = __fmul_rn(value, inverse);
  const float root = __fmaf_rn(__fmaf_rn(-near, near, value), __fmul_rn(inverse, 0.5f), near);
  return value == 0 ? value : root;
#else
  return __builtin_sqrtf(value);
#endif
}
TENSORA_HD inline double square_root(double value) { return __builtin_sqrt(value); }

/// Horner's rule with the coefficient of the highest power first.
template <class V, int N>
TENSORA_HD inline V polynomial(V x, const V (&coefficients)[N]) {
  V sum = coefficients[0];
#if defined(__CUDACC__)
#pragma unroll
#else
#pragma GCC unroll 16
#endif
  for (int i = 1; i < N; ++i) sum = product(sum, x) + coefficients[i];
  return sum;
}

/// ln of a normal number in (0, 1]: the number is m 2^e with m between sqrt(1/2) and sqrt(2), and
/// ln m = 2 artanh((m - 1) / (m + 1)), whose series ends early there.
TENSORA_HD inline float log_of(float x) {
  const unsigned base = 0x3f3504f3u;  // the bits of sqrt(1/2)
  const unsigned shifted = tensora::bits_of(x) - base;
  const int exponent = static_cast<int>(shifted) >> 23;
  const float m = float_of((shifted & 0x7fffffu) + base);
  const float s = quotient(m - 1, m + 1);
  const float series[] = {2 / 9.f, 2 / 7.f, 2 / 5.f, 2 / 3.f};
  const float square = product(s, s);
  const float tail = product(product(s, square), polynomial(square, series));
  return product(static_cast<float>(exponent), 0.693147181f) + (tail + product(s, 2.f));
}
TENSORA_HD inline double log_of(double x) {
  const unsigned long long base = 0x3fe6a09e667f3bcdull;  // the bits of sqrt(1/2)
  const unsigned long long shifted = bits_of(x) - base;
  const int exponent = static_cast<int>(shifted >> 32) >> 20;
  const double m = double_of((shifted & 0xfffffffffffffull) + base);
  const double s = (m - 1) / (m + 1);
  const double series[] = {2 / 21., 2 / 19., 2 / 17., 2 / 15., 2 / 13.,
                           2 / 11., 2 / 9.,  2 / 7.,  2 / 5.,  2 / 3.};
  const double square = product(s, s);
  const double tail = product(product(s, square), polynomial(square, series));
  return product(static_cast<double>(exponent), 0.69314718055994530942) + (tail + product(s, 2.));
}

template <class V>
struct Point {
  V x, y;
};

/// The point on the unit circle at `quadrant` + t quarter turns, t between -1/2 and 1/2.
template <class V>
TENSORA_HD inline Point<V> turn(unsigned quadrant, V x, V y) {
  const V along = quadrant & 1u ? y : x, across = quadrant & 1u ? x : y;
  return {(quadrant + 1u) & 2u ? -along : along, quadrant & 2u ? -across : across};
}
// The series of cos and sin of t quarter turns, in powers of t².
TENSORA_HD inline Point<float> on_circle(unsigned quadrant, float t) {
  const float cosine[] = {0.000919260274839426f, -0.0208634807633530f, 0.253669507901048f,
                          -1.23370055013617f, 1.f};
  const float sine[] = {0.000160441184787360f, -0.00468175413531869f, 0.0796926262461670f,
                        -0.645964097506246f, 1.57079632679490f};
  const float square = product(t, t);
  return turn(quadrant, polynomial(square, cosine), product(t, polynomial(square, sine)));
}
TENSORA_HD inline Point<double> on_circle(unsigned quadrant, double t) {
  const double cosine[] = {
      6.56596311497947236e-11, -6.38660308379185224e-9, 4.71087477881817150e-7,
      -2.52020423730606055e-5, 9.19260274839426580e-4,  -2.08634807633529609e-2,
      2.53669507901048014e-1,  -1.23370055013616983e+0, 1.00000000000000000e+0};
  const double sine[] = {6.06693573110619567e-12, -6.68803510981146723e-10, 5.69217292196792681e-8,
                         -3.59884323521208534e-6, 1.60441184787359822e-4,   -4.68175413531868810e-3,
                         7.96926262461670451e-2,  -6.45964097506246254e-1,  1.57079632679489662e+0};
  const double square = product(t, t);
  return turn(quadrant, polynomial(square, cosine), product(t, polynomial(square, sine)));
}

/// In (0, 1], fine near 0, where a logarithm needs it.
TENSORA_HD inline float above_zero(unsigned word) {
  return product(static_cast<float>(static_cast<int>(word >> 1)) + 0.5f, 0x1p-31f);
}
TENSORA_HD inline double above_zero(unsigned high, unsigned low) {
  return product(product(static_cast<double>(static_cast<int>(high >> 1)), 0x1p31) +
                     static_cast<double>(static_cast<int>(low >> 1)) + 0.5,
                 0x1p-62);
}

/// In [0, 1), a multiple of 2^-24 (2^-53 for double).
TENSORA_HD inline float unit(unsigned word) {
  return product(static_cast<float>(static_cast<int>(word >> 8)), 0x1p-24f);
}
TENSORA_HD inline double unit(unsigned high, unsigned low) {
  return product(product(static_cast<double>(static_cast<int>(high >> 5)), 0x1p26) +
                     static_cast<double>(static_cast<int>(low >> 6)),
                 0x1p-53);
}

/// Two independent standard normal values (Box and Muller).
TENSORA_HD inline Point<float> normal_pair(unsigned a, unsigned b) {
  const float radius = square_root(product(-2.f, log_of(above_zero(a))));
  const float t = product(static_cast<float>(static_cast<int>(b << 2)), 0x1p-32f);
  const Point<float> point = on_circle(b >> 30, t);
  return {product(radius, point.x), product(radius, point.y)};
}
TENSORA_HD inline Point<double> normal_pair(unsigned a, unsigned b, unsigned c, unsigned d) {
  const double radius = square_root(product(-2., log_of(above_zero(a, b))));
  const double t = product(static_cast<double>(static_cast<int>(c << 2)), 0x1p-32) +
                   product(static_cast<double>(static_cast<int>(d >> 1)), 0x1p-63);
  const Point<double> point = on_circle(c >> 30, t);
  return {product(radius, point.x), product(radius, point.y)};
}

}  // namespace random_detail

// A distribution computes in V = float for 16- and 32-bit floats, and in double for float64;
// integer distributions in V = long long. `per_counter<V>` values come from the words of one
// counter. Each op's attributes begin with the state that its numbers come from.

template <class V>
inline constexpr int kValuesPerCounter = sizeof(V) == 4 ? 4 : 2;

/// Uniform in [from, to).
struct Uniform {
  unsigned long seed = 0, offset = 0;
  double from = 0, to = 1;
  int bits = 24;  // of the float format: fewer for the 16-bit ones, so that `to` is never reached

  TENSORA_HD void values(const unsigned (&w)[4], float (&v)[4]) const {
    const float low = static_cast<float>(from), high = static_cast<float>(to);
    const float scale = float_of(static_cast<unsigned>(127 - bits) << 23), range = high - low;
    for (int k = 0; k < 4; ++k) {
      const float u = product(static_cast<float>(static_cast<int>(w[k] >> (32 - bits))), scale);
      const float value = product(u, range) + low;
      v[k] = value == high ? low : value;
    }
  }
  TENSORA_HD void values(const unsigned (&w)[4], double (&v)[2]) const {
    for (int k = 0; k < 2; ++k) {
      const double value = product(random_detail::unit(w[2 * k], w[2 * k + 1]), to - from) + from;
      v[k] = value == to ? from : value;
    }
  }
};

struct Normal {
  unsigned long seed = 0, offset = 0;
  double mean = 0, std = 1;

  TENSORA_HD void values(const unsigned (&w)[4], float (&v)[4]) const {
    const float centre = static_cast<float>(mean), scale = static_cast<float>(std);
    for (int k = 0; k < 2; ++k) {
      const auto pair = random_detail::normal_pair(w[2 * k], w[2 * k + 1]);
      v[2 * k] = product(pair.x, scale) + centre;
      v[2 * k + 1] = product(pair.y, scale) + centre;
    }
  }
  TENSORA_HD void values(const unsigned (&w)[4], double (&v)[2]) const {
    const auto pair = random_detail::normal_pair(w[0], w[1], w[2], w[3]);
    v[0] = product(pair.x, std) + mean;
    v[1] = product(pair.y, std) + mean;
  }
};

/// Density lambd exp(-lambd x) for x > 0.
struct Exponential {
  unsigned long seed = 0, offset = 0;
  double lambd = 1;

  TENSORA_HD void values(const unsigned (&w)[4], float (&v)[4]) const {
    const float rate = static_cast<float>(lambd);
    for (int k = 0; k < 4; ++k) {
      const float u = random_detail::above_zero(w[k]);
      v[k] = -random_detail::log_of(u < 1 ? u : 1 - 0x1p-24f) / rate;
    }
  }
  TENSORA_HD void values(const unsigned (&w)[4], double (&v)[2]) const {
    for (int k = 0; k < 2; ++k) {
      const double u = random_detail::above_zero(w[2 * k], w[2 * k + 1]);
      v[k] = -random_detail::log_of(u < 1 ? u : 1 - 0x1p-53) / lambd;
    }
  }
};

/// 1 with probability p, else 0.
struct Bernoulli {
  unsigned long seed = 0, offset = 0;
  double p = 0.5;

  TENSORA_HD void values(const unsigned (&w)[4], float (&v)[4]) const {
    const double words = product(p, 0x1p32);
    const unsigned last = words < 1 ? 0u : static_cast<unsigned>(words - 1);
    for (int k = 0; k < 4; ++k) v[k] = words >= 1 && w[k] <= last ? 1.f : 0.f;
  }
};

/// An integer in [low, low + range); range 0 stands for 2^64.
struct RandomInteger {
  unsigned long seed = 0, offset = 0;
  long low = 0;
  unsigned long range = 1;

  TENSORA_HD void values(const unsigned (&w)[4], long long (&v)[2]) const {
    for (int k = 0; k < 2; ++k) {
      const unsigned long long word =
          (static_cast<unsigned long long>(w[2 * k]) << 32) | w[2 * k + 1];
      const unsigned long long part = range == 0 ? word : high_product(word, range);
      v[k] = static_cast<long long>(static_cast<unsigned long long>(low) + part);
    }
  }

  /// The upper half of the 128-bit product.
  TENSORA_HD static unsigned long long high_product(unsigned long long a, unsigned long long b) {
    const unsigned long long a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    const unsigned long long middle = a1 * b0 + ((a0 * b0) >> 32);
    return a1 * b1 + (middle >> 32) + ((a0 * b1 + (middle & 0xffffffffu)) >> 32);
  }
};

}  // namespace tensora

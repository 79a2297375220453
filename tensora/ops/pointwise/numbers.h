#pragma once

#include "tensora/base/half.h"
#include "tensora/core/functor.h"

// Functors that look at a number's parts: its sign, its exponent, its neighbours, its divisors.

namespace tensora::functors {

/// A float as its bits; a double as its.
TENSORA_HD inline unsigned word_of(float x) { return __builtin_bit_cast(unsigned, x); }
TENSORA_HD inline unsigned long long word_of(double x) {
  return __builtin_bit_cast(unsigned long long, x);
}

/// Where the parts of V's bits lie.
template <class V>
struct Bits;
template <>
struct Bits<float> {
  using Word = unsigned;
  static constexpr int digits = 23, bias = 126;
  static constexpr Word exponent = 0x7f800000u, sign = 0x80000000u;
};
template <>
struct Bits<double> {
  using Word = unsigned long long;
  static constexpr int digits = 52, bias = 1022;
  static constexpr Word exponent = 0x7ff0000000000000ull, sign = 0x8000000000000000ull;
};

/// x = mantissa * 2^exponent with 1/2 <= |mantissa| < 1; 0, infinities and NaN have exponent 0.
template <class V>
struct Parts {
  V mantissa, exponent;
};
template <class V>
TENSORA_HD inline Parts<V> parts_of_bits(V x) {
  using B = Bits<V>;
  const bool subnormal = (word_of(x) & B::exponent) == 0;
  const V scaled = subnormal ? x * V(0x1p64) : x;
  const typename B::Word word = word_of(scaled), field = word & B::exponent;
  if (field == 0 || field == B::exponent) return {x, V(0)};
  const int exponent = static_cast<int>(field >> B::digits) - B::bias - (subnormal ? 64 : 0);
  const typename B::Word half = typename B::Word(B::bias) << B::digits;
  return {__builtin_bit_cast(V, (word & ~B::exponent) | half), V(exponent)};
}
TENSORA_HD inline Parts<float> parts_of(float x) { return parts_of_bits(x); }
TENSORA_HD inline Parts<double> parts_of(double x) { return parts_of_bits(x); }
/// For numbers that are no floats of the machine's.
template <class V>
TENSORA_HD inline Parts<V> parts_of(V x) {
  V mantissa = x, exponent = V(0);
  if (x == V(0) || !isfinite(x)) return {x, exponent};
  for (; abs(mantissa) >= V(1); exponent = exponent + V(1)) mantissa = mantissa / V(2);
  for (; abs(mantissa) < V(0.5); exponent = exponent - V(1)) mantissa = mantissa * V(2);
  return {mantissa, exponent};
}

struct NumberPredicate : Unary {
  static constexpr auto types = Types::predicate;
  static constexpr auto differentiable = false;
  static constexpr auto inplace = false;
};

struct Signbit : NumberPredicate {
  static constexpr auto name = "signbit";
  template <class V>
  constexpr V forward(V self) const {
    if constexpr (math::Integer<V>)
      return V(self < V(0));
    else
      return V(copysign(V(1), self) < V(0));
  }
};

struct Isposinf : NumberPredicate {
  static constexpr auto name = "isposinf";
  template <class V>
  constexpr V forward(V self) const {
    return V(isinf(self) & (self > V(0)));
  }
};

struct Isneginf : NumberPredicate {
  static constexpr auto name = "isneginf";
  template <class V>
  constexpr V forward(V self) const {
    return V(isinf(self) & (self < V(0)));
  }
};

/// The exponent that the function frexp gives.
struct FrexpExponent : Unary {
  static constexpr auto name = "frexp_exponent";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr auto differentiable = false;
  template <class V>
  constexpr V forward(V self) const {
    return parts_of(self).exponent;
  }
};

/// x * 2^n, rounded once, for whole n.
TENSORA_HD inline float times_power_of_two(float x, float n) {
  if (isnan(n)) return n;
  const int power = n > 400 ? 400 : n < -400 ? -400 : static_cast<int>(n);
#if defined(__CUDA_ARCH__)
  return ::ldexpf(x, power);
#else
  return __builtin_ldexpf(x, power);
#endif
}
TENSORA_HD inline double times_power_of_two(double x, double n) {
  if (isnan(n)) return n;
  const int power = n > 2200 ? 2200 : n < -2200 ? -2200 : static_cast<int>(n);
#if defined(__CUDA_ARCH__)
  return ::ldexp(x, power);
#else
  return __builtin_ldexp(x, power);
#endif
}
template <class V>
TENSORA_HD inline V times_power_of_two(V x, V n) {
  return x * exp2(clamp(n, V(-5000), V(5000)));
}

/// Of a float and an integer; the function ldexp sees to that.
struct Ldexp : Binary {
  static constexpr auto name = "ldexp";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr unsigned saves_a = kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    return times_power_of_two(self, trunc(other));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * exp2(s.b + zero_like(s.g));
  }
};

/// The greatest common divisor, as PyTorch computes it: of the most negative number, whose negative
/// overflows, it may be negative.
template <class V>
TENSORA_HD constexpr V common_divisor(V a, V b) {
  a = abs(a);
  b = abs(b);
  while (a != V(0)) {
    const V rest = b % a;
    b = a;
    a = rest;
  }
  return b;
}

struct Gcd : Binary {
  static constexpr auto name = "gcd";
  static constexpr auto types = Types::integer;
  static constexpr auto differentiable = false;
  template <class V>
  constexpr V forward(V self, V other) const {
    return common_divisor(self, other);
  }
};

struct Lcm : Binary {
  static constexpr auto name = "lcm";
  static constexpr auto types = Types::integer;
  static constexpr auto differentiable = false;
  template <class V>
  constexpr V forward(V self, V other) const {
    const V divisor = common_divisor(self, other);
    return divisor == V(0) ? V(0) : abs(self / divisor * other);
  }
};

/// One step through the numbers of a format, whose bits are ordered as their magnitudes are.
template <class Word>
TENSORA_HD constexpr Word next_word(Word word, Word sign, bool upwards) {
  const Word magnitude = word & Word(~sign);
  if (magnitude == 0) return Word(1) | (upwards ? Word(0) : sign);
  const bool away = upwards == ((word & sign) == 0);
  return away ? Word(word + 1) : Word(word - 1);
}
TENSORA_HD inline float next_after(float x, float target, int format) {
  if (isnan(x) || isnan(target)) return x + target;
  if (x == target) return target;
  const bool upwards = target > x;
  using Short = unsigned short;
  if (format == 1) {
    const auto bits = static_cast<Short>(word_of(x) >> 16);
    const Short next = next_word<Short>(bits, 0x8000, upwards);
    return __builtin_bit_cast(float, static_cast<unsigned>(next) << 16);
  }
  if (format == 2) {
    Half half(x);
    half.bits = next_word<Short>(half.bits, 0x8000, upwards);
    return static_cast<float>(half);
  }
  return __builtin_bit_cast(float, next_word(word_of(x), Bits<float>::sign, upwards));
}
TENSORA_HD inline double next_after(double x, double target, int) {
  if (isnan(x) || isnan(target)) return x + target;
  if (x == target) return target;
  return __builtin_bit_cast(double, next_word(word_of(x), Bits<double>::sign, target > x));
}
/// Numbers that are no floats of the machine's have no neighbours.
template <class V>
TENSORA_HD inline V next_after(V x, V target, int) {
  return select(isnan(target), target, x);
}

/// The number next to `self` in the direction of `other`. `format` is 1 for bfloat16 and 2 for
/// float16, which are computed in float32; the function nextafter sets it.
struct Nextafter : Binary {
  static constexpr auto name = "nextafter";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr double ulp = 1;  // what it changes
  static constexpr unsigned saves_a = kA | kB;
  int format = 0;
  template <class V>
  constexpr V forward(V self, V other) const {
    return next_after(self, other, format);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.a == s.b, lit<V>(0), s.g);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return zero_like(s.g);
  }
};

}  // namespace tensora::functors

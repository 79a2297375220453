#pragma once

// Internal header
// What choosing a token by its logit computes, the same on the host and on the device.
//
// Note [Equal tokens everywhere]
// A choice compares sums of probabilities with a random number or with a share, and sums of floats
// depend on their order, exponentials on who computes them. So probabilities are integers here: the
// most probable token has 2^40, and the others are found by integer arithmetic alone. Their sums
// are exact in any order, and host and device choose the same token of equal logits. What is less
// probable than 2^-40 of the highest is never chosen.

#include "tensora/ops/random/random_values.h"

namespace tensora {

inline constexpr int kTokenWeightBits = 40;
/// The sum of so many weights fits 64 bits.
inline constexpr long long kMostTokens = 1ll << 23;
/// The most that the op's top_k may be.
inline constexpr int kMostTopK = 1024;

/// A logit and its token in one number: the order of the numbers is that of the logits, and of
/// equal logits the lower token comes first from above. 0 is no token's.
TENSORA_HD inline unsigned long long token_key(float logit, unsigned token) {
  const unsigned bits = bits_of(logit + 0.0f);  // -0 counts as 0
  const unsigned ordered = bits ^ (bits >> 31 ? 0xFFFFFFFFu : 0x80000000u);
  return static_cast<unsigned long long>(ordered) << 32 | (0xFFFFFFFFu - token);
}
TENSORA_HD inline float logit_of_key(unsigned long long key) {
  const auto ordered = static_cast<unsigned>(key >> 32);
  return float_of(ordered ^ (ordered >> 31 ? 0x80000000u : 0xFFFFFFFFu));
}
TENSORA_HD inline int token_of_key(unsigned long long key) {
  return static_cast<int>(0xFFFFFFFFu - static_cast<unsigned>(key));
}

/// e to the power of `below`, a logit less the highest one, in units of 2^-40; exact to 2e-8 of it
/// or half a unit. 2^f - 1 is a polynomial in f whose coefficients are in units of 2^-32.
TENSORA_HD inline unsigned long long token_weight(float below) {
  using Wide = unsigned long long;
  if (!(below > -27.7f)) return 0;
  constexpr Wide kLog2E = 1549082005;  // times 2^30
  const Wide power = (Wide{kTokenWeightBits} << 56) - static_cast<Wide>(below * -0x1p26f) * kLog2E;
  const Wide fraction = power >> 25 & 0x7FFFFFFF;
  Wide sum = 894607;
  sum = (sum * fraction >> 31) + 5450035;
  sum = (sum * fraction >> 31) + 41456917;
  sum = (sum * fraction >> 31) + 238353231;
  sum = (sum * fraction >> 31) + 1031768032;
  sum = (sum * fraction >> 31) + 2977044429u;
  const Wide mantissa = (Wide{1} << 32) + (sum * fraction >> 31);
  return (mantissa << (kTokenWeightBits - 32)) >>
         (kTokenWeightBits - static_cast<int>(power >> 56));
}

/// The least weight of min-p.
TENSORA_HD inline unsigned long long least_weight(double part) {
  return static_cast<unsigned long long>(part * 0x1p40);
}
/// The mass that top-p keeps of a sum.
TENSORA_HD inline unsigned long long kept_mass(double part, unsigned long long sum) {
  return static_cast<unsigned long long>(part * static_cast<double>(sum));
}
/// A logit less the highest one, at a temperature; one near zero must not overflow.
TENSORA_HD inline float colder(float below, double factor) {
  const double scaled = static_cast<double>(below) * factor;
  return static_cast<float>(scaled > -1e30 ? scaled : -1e30);
}

/// 53 random bits, as the upper ones of a 64-bit word.
TENSORA_HD inline unsigned long long choice_word(const PhiloxWords& words) {
  const unsigned long long word = static_cast<unsigned long long>(words.word[0]) << 32;
  return (word | words.word[1]) >> 11 << 11;
}
/// The point at word / 2^64 of a sum; always below it.
TENSORA_HD inline unsigned long long choice_point(unsigned long long word, unsigned long long sum) {
  return RandomInteger::high_product(word, sum);
}

}  // namespace tensora

#pragma once

#include <cstdint>

#include "tensora/core/random.h"

// Single random numbers for the host, out of the streams that random ops use.

namespace tensora::data {

/// Uniform in [0, 1), of 53 bits.
inline double uniform_of(const PhiloxWords& words) {
  const uint64_t bits = (uint64_t{words.word[0]} << 32) | words.word[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

inline double draw_uniform(Generator& generator, double from = 0, double to = 1) {
  const PhiloxState here = generator.reserve(1);
  return from + (to - from) * uniform_of(philox(here.seed, here.offset));
}

/// An integer of [0, count).
inline int64_t draw_below(Generator& generator, int64_t count) {
  const PhiloxState here = generator.reserve(1);
  const PhiloxWords words = philox(here.seed, here.offset);
  const uint64_t bits = (uint64_t{words.word[0]} << 32) | words.word[1];
  // The high half of the product: the bias is below count / 2^64.
  return static_cast<int64_t>(
      (static_cast<unsigned __int128>(bits) * static_cast<unsigned __int128>(count)) >> 64);
}

/// A seed out of several numbers: another one for every combination of them.
inline uint64_t mix_seed(uint64_t seed, uint64_t a, uint64_t b = 0) {
  const PhiloxWords first = philox(~seed, a);
  const uint64_t key = (uint64_t{first.word[0]} << 32) | first.word[1];
  const PhiloxWords second = philox(key, b);
  return (uint64_t{second.word[2]} << 32) | second.word[3];
}

}  // namespace tensora::data

#pragma once

// Internal header
// A distribution as a function for run_generate: blocks of 32 counters at a time, vectorised.

#include <cstring>

#include "tensora/backend/cpu/generate.h"
#include "tensora/ops/random/random.h"

namespace tensora::cpu::TENSORA_ISA {

constexpr int kRandomLanes = kPhiloxLanes;

// The words of 32 successive counters, word by word. See Note [Lanes].
inline void philox_block(uint64_t seed, uint64_t counter, unsigned (&words)[4][kRandomLanes]) {
#pragma omp simd
  for (int lane = 0; lane < kRandomLanes; ++lane) {
    const PhiloxWords four = philox(seed, counter + static_cast<uint64_t>(lane));
    words[0][lane] = four.word[0];
    words[1][lane] = four.word[1];
    words[2][lane] = four.word[2];
    words[3][lane] = four.word[3];
  }
}

// Flattened: a call left in the loop would keep it from being vectorised.
template <class V, class Distribution>
[[gnu::flatten]] void block_values(const Distribution& distribution,
                                   const unsigned (&words)[4][kRandomLanes], V* to) {
  constexpr int per_counter = kValuesPerCounter<V>;
#pragma omp simd
  for (int lane = 0; lane < kRandomLanes; ++lane) {
    const unsigned four[4] = {words[0][lane], words[1][lane], words[2][lane], words[3][lane]};
    V values[per_counter];
    distribution.values(four, values);
    for (int k = 0; k < per_counter; ++k) to[k * kRandomLanes + lane] = values[k];
  }
}

template <class Distribution, class V>
void random_tile(const void* functor, int64_t start, int64_t n, void* to) {
  constexpr int64_t block = kRandomLanes * kValuesPerCounter<V>;
  static_assert(kGenerateTile % block == 0);
  const Distribution distribution = *static_cast<const Distribution*>(functor);
  V* target = static_cast<V*>(to);
  uint64_t counter = distribution.offset +
                     static_cast<uint64_t>(start / block) * static_cast<uint64_t>(kRandomLanes);
  unsigned words[4][kRandomLanes];
  for (; n > 0; n -= block, target += block, counter += kRandomLanes) {
    philox_block(distribution.seed, counter, words);
    if (n >= block) {
      block_values(distribution, words, target);
      continue;
    }
    V last[block];
    block_values(distribution, words, last);
    std::memcpy(target, last, static_cast<size_t>(n) * sizeof(V));
  }
}

}  // namespace tensora::cpu::TENSORA_ISA

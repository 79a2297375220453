#pragma once

// Internal header
// A distribution as a function for run_generate: blocks of 32 counters at a time, vectorised.

#include <cstring>

#include "tensora/backend/cpu/generate.h"
#include "tensora/ops/random/random.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace tensora::cpu::TENSORA_ISA {

constexpr int kRandomLanes = kPhiloxLanes;

// The words of 32 successive counters, word by word. See Note [Lanes].
#if defined(__AVX512F__)
// By hand: the compiler's loop shuffles for every product of two words. In lanes of 64 bits nothing
// moves: a product reads the lower halves, and what stands in the upper ones does not matter.
inline void philox_block(uint64_t seed, uint64_t counter, unsigned (&words)[4][kRandomLanes]) {
  constexpr __mmask8 kAll = 0xff;  // GCC 12 warns of the unmasked forms
  const auto all = [](uint64_t value) { return _mm512_set1_epi64(static_cast<long long>(value)); };
  const auto upper = [](__m512i value) { return _mm512_maskz_srli_epi64(kAll, value, 32); };
  const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  for (int lane = 0; lane < kRandomLanes; lane += 8) {
    __m512i c0 = _mm512_add_epi64(all(counter + static_cast<uint64_t>(lane)), lanes);
    __m512i c1 = upper(c0), c2 = all(0), c3 = c2, key0 = all(seed), key1 = all(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const __m512i a = _mm512_maskz_mul_epu32(kAll, all(0xD2511F53), c0);
      const __m512i b = _mm512_maskz_mul_epu32(kAll, all(0xCD9E8D57), c2);
      c0 = _mm512_xor_si512(_mm512_xor_si512(upper(b), c1), key0);
      c2 = _mm512_xor_si512(_mm512_xor_si512(upper(a), c3), key1);
      c1 = b;
      c3 = a;
      key0 = _mm512_add_epi64(key0, all(0x9E3779B9));
      key1 = _mm512_add_epi64(key1, all(0xBB67AE85));
    }
    const __m512i four[4] = {c0, c1, c2, c3};
    for (int k = 0; k < 4; ++k)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(words[k] + lane),
                          _mm512_maskz_cvtepi64_epi32(kAll, four[k]));
  }
}
#else
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
#endif

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

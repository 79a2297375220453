#pragma once

// Philox 4x32-10, the counter-based random generator of Salmon, Moraes, Dror and Shaw (2011), and
// the way Tensora deals its words out to the elements of a tensor. Compiled for the host, by nvcc
// and by NVRTC, so it includes nothing of the standard library.

#include "tensora/base/host_device.h"

namespace tensora {

/// Where a random op's numbers begin: op and element number determine each value completely.
struct PhiloxState {
  unsigned long long seed = 0;
  unsigned long long offset = 0;  // the first counter
};

struct PhiloxWords {
  unsigned word[4];
};

/// The 64-bit product of two words.
TENSORA_HD inline unsigned long long word_product(unsigned a, unsigned b) {
#if defined(__CUDA_ARCH__)
  // From the expression below nvcc makes a product of 64-bit numbers, and adds their upper halves.
  unsigned long long product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return static_cast<unsigned long long>(a) * b;
#endif
}

/// The four words of one counter: a pure function of (seed, counter).
TENSORA_HD inline PhiloxWords philox(unsigned long long seed, unsigned long long counter) {
  unsigned key0 = static_cast<unsigned>(seed), key1 = static_cast<unsigned>(seed >> 32);
  unsigned c0 = static_cast<unsigned>(counter), c1 = static_cast<unsigned>(counter >> 32);
  unsigned c2 = 0, c3 = 0;
#if defined(__CUDACC__)
#pragma unroll
#else
#pragma GCC unroll 10
#endif
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = word_product(0xD2511F53u, c0), b = word_product(0xCD9E8D57u, c2);
    c0 = static_cast<unsigned>(b >> 32) ^ c1 ^ key0;
    c2 = static_cast<unsigned>(a >> 32) ^ c3 ^ key1;
    c1 = static_cast<unsigned>(b);
    c3 = static_cast<unsigned>(a);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Note [Lanes]
/// A counter gives four words, enough for four or two values. The values are dealt out in blocks
/// of 32 counters: value k of the counter in lane l goes to element 32 k + l of the block. So a
/// warp, or a vector register, that holds 32 (or 16, or 8) adjacent counters writes
/// adjacent elements, and no transposition is needed anywhere.
inline constexpr int kPhiloxLanes = 32;

/// How many counters `count` elements use up when a counter gives `per_counter` values.
TENSORA_HD constexpr unsigned long long philox_counters(long long count, int per_counter) {
  const long long block = static_cast<long long>(kPhiloxLanes) * per_counter;
  return static_cast<unsigned long long>((count + block - 1) / block) * kPhiloxLanes;
}

}  // namespace tensora

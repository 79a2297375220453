#pragma once

// Internal header
// The block formats as operands of wgmma. See Note [Batches times quantized weights].

#include "tensora/ops/quant/blocks.h"
#include "tensora/ops/quant/few_rows.h"

namespace tensora::cuda {

// Note [Weights as float16 operands]
// A chunk is 256 numbers of a weight row, in eight groups of 32. Of a group a thread unpacks
// numbers 8 c to 8 c + 7, c its place among four, as pairs (0, 2), (1, 3), (4, 6), (5, 7) of
// float16: in this order two masks take them out of a word. Activations are stored in the same
// order. The K formats have whole scales: scale times level is a whole number below 2048, which
// float16 holds exactly (Q6_K and IQ4_XS: below 4096, even ones from 2048 on), so only one factor
// per chunk is left for the sums. Others have a factor for each block. Offsets of groups are
// multiplied by the sums of the activations of each group. A format has:
//   kBytes     of a chunk
//   kPitch     from row to row in shared memory, so that eight rows lie in different banks
//   kEvery     groups that share a factor: their products are summed before it is applied
//   kLows      what offsets belong to
//   Chunk      what is read once per chunk of a row: Chunk(row, c)
//   numbers    the pairs of group t; rests: what float16 leaves of them, if kTerms is 2
//   factor     of the sums of group t
//   low, low_factor  two offsets as float16, and the factor of their sums
enum class Lows { none, groups_of_32, groups_of_16 };

// ---- arithmetic on pairs of float16 ------------------------------------------------------------

__device__ inline unsigned add_pairs(unsigned a, unsigned b) {
  unsigned result;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
__device__ inline unsigned multiply_pairs(unsigned a, unsigned b) {
  unsigned result;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
__device__ inline unsigned multiply_add_pairs(unsigned a, unsigned b, unsigned c) {
  unsigned result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

inline constexpr unsigned kPairOf1024 = 0x64006400u;  // or-ed with numbers below 1024
inline constexpr unsigned kPairOfMinus1024 = 0xe400e400u;
inline constexpr unsigned kPairOfMinus1032 = 0xe408e408u;  // 1024 + 8
inline constexpr unsigned kPairOfMinus1040 = 0xe410e410u;  // 1024 + 16
inline constexpr unsigned kPairOfMinus1056 = 0xe420e420u;  // 1024 + 32
inline constexpr unsigned kPairOfMinus1152 = 0xe480e480u;  // 1024 + 128
inline constexpr unsigned kPairOfMinus1028 = 0xe404e404u;  // 1024 + 4

/// The bits of `word` in `mask`, or-ed with 1024: one instruction, where the compiler makes two of
/// two constants.
__device__ inline unsigned onto_1024(unsigned word, unsigned mask) {
  unsigned result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(mask), "r"(kPairOf1024));
  return result;
}
/// Bytes 0 and 2 (later: 1 and 3) of a word plus 1024, as float16.
__device__ inline unsigned even_bytes(unsigned word) { return onto_1024(word, 0x00ff00ffu); }
__device__ inline unsigned odd_bytes(unsigned word) { return even_bytes(word >> 8); }
/// Byte `i` of a word plus 1024, twice.
__device__ inline unsigned twice(unsigned word, unsigned i) {
  return __byte_perm(word, kPairOf1024, 0x5050u | i << 8 | i);
}

// ---- reading shared memory ---------------------------------------------------------------------

/// Words at any address; four bytes behind them are readable.
template <int count>
__device__ inline void load_words(const char* from, unsigned (&words)[count]) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(from));
  const auto* const aligned = reinterpret_cast<const unsigned*>(from - (address & 3));
  const unsigned shift = (address & 3) * 8;
  unsigned raw[count + 1];
#pragma unroll
  for (int i = 0; i <= count; ++i) raw[i] = aligned[i];
#pragma unroll
  for (int i = 0; i < count; ++i) words[i] = __funnelshift_r(raw[i], raw[i + 1], shift);
}
/// The same for addresses that differ from `base` by multiples of four: the shift is found once.
struct UnalignedWords {
  const unsigned* aligned;
  unsigned shift;

  __device__ explicit UnalignedWords(const char* base) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(base));
    aligned = reinterpret_cast<const unsigned*>(base - (address & 3));
    shift = (address & 3) * 8;
  }
  template <int count>
  __device__ void load(int offset, unsigned (&words)[count]) const {
    unsigned raw[count + 1];
#pragma unroll
    for (int i = 0; i <= count; ++i) raw[i] = aligned[offset / 4 + i];
#pragma unroll
    for (int i = 0; i < count; ++i) words[i] = __funnelshift_r(raw[i], raw[i + 1], shift);
  }
};
__device__ inline float half_at(const char* from) {
  return static_cast<float>(*reinterpret_cast<const Half*>(from));
}
__device__ inline unsigned two_bytes(const char* from) {
  return *reinterpret_cast<const unsigned short*>(from);
}

struct FormatBase {
  static constexpr int kEvery = 1;
  static constexpr Lows kLows = Lows::none;
  static constexpr int kTerms = 1;
};

// ---- blocks of 32 ------------------------------------------------------------------------------

struct BatchQ8_0 : FormatBase {
  static constexpr int kBytes = 272, kPitch = 288, kAlign = 2;
  struct Chunk {
    UnalignedWords even, odd;  // blocks; those that follow each other are aligned differently
    __device__ Chunk(const char* row, int c) : even(row + 2 + 8 * c), odd(row + 36 + 8 * c) {}
  };
  __device__ static void numbers(const char*, const Chunk& chunk, int, int t, unsigned (&a)[4]) {
    unsigned words[2];
    if (t % 2 == 0)
      chunk.even.load(t * 34, words);
    else
      chunk.odd.load((t - 1) * 34, words);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned word = words[i] ^ 0x80808080u;
      a[2 * i] = add_pairs(even_bytes(word), kPairOfMinus1152);
      a[2 * i + 1] = add_pairs(odd_bytes(word), kPairOfMinus1152);
    }
  }
  __device__ static float factor(const char* row, const Chunk&, int t) {
    return half_at(row + t * 34);
  }
};

/// Four bits in the last 16 of a block's bytes: numbers 0 to 15 in the low halves. A fifth bit of
/// each in the 4 bytes before, if `five`.
template <int bytes, bool five, bool affine>
struct BatchNibbles : FormatBase {
  static constexpr int kBytes = bytes * 8, kAlign = affine ? 4 : 2;
  static constexpr int kPitch = bytes < 22 ? 176 : 208;
  static constexpr Lows kLows = affine ? Lows::groups_of_32 : Lows::none;
  struct Chunk {
    __device__ Chunk(const char*, int) {}
  };
  __device__ static void numbers(const char* row, const Chunk&, int c, int t, unsigned (&a)[4]) {
    const char* const block = row + t * bytes;
    unsigned words[2];
    load_words(block + bytes - 16 + 8 * (c & 1), words);
    const int high = c / 2 * 4;
    unsigned fifth = 0;
    if constexpr (five) fifth = (two_bytes(block + bytes - 20 + c / 2 * 2) >> 8 * (c & 1));
    constexpr unsigned kOff = affine ? kPairOfMinus1024
                              : five ? kPairOfMinus1040
                                     : kPairOfMinus1032;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unsigned word = words[i] >> high & 0x0f0f0f0fu;
      // Bit i of four goes to bit 4 of byte i.
      if constexpr (five) word |= (fifth >> 4 * i & 15) * 0x02040810u & 0x10101010u;
      a[2 * i] = add_pairs(even_bytes(word), kOff);
      a[2 * i + 1] = add_pairs(odd_bytes(word), kOff);
    }
  }
  __device__ static float factor(const char* row, const Chunk&, int t) {
    return half_at(row + t * bytes);
  }
  __device__ static unsigned low(const char* row, const Chunk&, int c, int) {
    return two_bytes(row + 2 * c * bytes + 2) | two_bytes(row + (2 * c + 1) * bytes + 2) << 16;
  }
  __device__ static float low_factor(const char*, const Chunk&) { return 1.0f; }
};
using BatchQ4_0 = BatchNibbles<18, false, false>;
using BatchQ4_1 = BatchNibbles<20, false, true>;
using BatchQ5_0 = BatchNibbles<22, true, false>;
using BatchQ5_1 = BatchNibbles<24, true, true>;

// ---- four bits that index a table --------------------------------------------------------------

/// The low halves of four bytes, in 16 bits.
__device__ inline unsigned four_nibbles(unsigned word) {
  const unsigned bytes = word & 0x0f0f0f0fu;
  return __byte_perm(bytes | bytes >> 4, 0, 0x4420);
}
/// A table's bytes at four indices, the nibbles of 16 bits.
__device__ inline unsigned look_up(const unsigned (&table)[4], unsigned nibbles) {
  const unsigned places = nibbles & 0x7777u;
  return __byte_perm(__byte_perm(table[0], table[1], places),
                     __byte_perm(table[2], table[3], places), 0x3210u | (nibbles & 0x8888u) >> 1);
}
/// Numbers of a group of IQ4_NL or IQ4_XS, from its eight bytes.
__device__ inline void stepped_numbers(const unsigned (&words)[2], int shift, unsigned (&a)[4]) {
  constexpr unsigned kTable[4] = {0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u};  // + 128
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned bytes = look_up(kTable, four_nibbles(words[i] >> shift));
    a[2 * i] = add_pairs(even_bytes(bytes), kPairOfMinus1152);
    a[2 * i + 1] = add_pairs(odd_bytes(bytes), kPairOfMinus1152);
  }
}

struct BatchIQ4_NL : FormatBase {
  static constexpr int kBytes = 144, kPitch = 176, kAlign = 2;
  struct Chunk {
    __device__ Chunk(const char*, int) {}
  };
  __device__ static void numbers(const char* row, const Chunk&, int c, int t, unsigned (&a)[4]) {
    unsigned words[2];
    load_words(row + t * 18 + 2 + 8 * (c & 1), words);
    stepped_numbers(words, c / 2 * 4, a);
  }
  __device__ static float factor(const char* row, const Chunk&, int t) {
    return half_at(row + t * 18);
  }
};

struct BatchIQ4_XS : FormatBase {
  static constexpr int kBytes = 136, kPitch = 144, kAlign = 8, kEvery = 8;
  struct Chunk {
    float scale;
    unsigned low, high;
    __device__ Chunk(const char* row, int)
        : scale(half_at(row)),
          low(*reinterpret_cast<const unsigned*>(row + 4)),
          high(two_bytes(row + 2)) {}
  };
  __device__ static void numbers(const char* row, const Chunk& chunk, int c, int t,
                                 unsigned (&a)[4]) {
    const auto pair = *reinterpret_cast<const uint2*>(row + 8 + t * 16 + 8 * (c & 1));
    const unsigned words[2] = {pair.x, pair.y};
    stepped_numbers(words, c / 2 * 4, a);
    const unsigned code = (chunk.low >> 4 * t & 15) | (chunk.high >> 2 * t & 3) << 4;
    const unsigned scale = add_pairs(code * 0x00010001u | kPairOf1024, kPairOfMinus1056);
#pragma unroll
    for (unsigned& pairs : a) pairs = multiply_pairs(pairs, scale);
  }
  __device__ static float factor(const char*, const Chunk& chunk, int) { return chunk.scale; }
};

// The bits of a number, moved to float16's places, are 2^-14 times the number.
struct BatchMXFP4 : FormatBase {
  static constexpr int kBytes = 136, kPitch = 176, kAlign = 1;
  struct Chunk {
    __device__ Chunk(const char*, int) {}
  };
  __device__ static void numbers(const char* row, const Chunk&, int c, int t, unsigned (&a)[4]) {
    unsigned words[2];
    load_words(row + t * 17 + 1 + 8 * (c & 1), words);
    const int high = c / 2 * 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned even = words[i] >> high, odd = even >> 8;
      a[2 * i] = (even << 12 & 0x80008000u) | (even << 9 & 0x0e000e00u);
      a[2 * i + 1] = (odd << 12 & 0x80008000u) | (odd << 9 & 0x0e000e00u);
    }
  }
  /// BlockMXFP4::half_scale() without branches, which would part the warps of a product.
  __device__ static float half_scale(const char* row, int t) {
    const unsigned exponent = reinterpret_cast<const BlockMXFP4*>(row + t * 17)->exponent;
    const unsigned bits = exponent < 2 ? 0x200000u << exponent : (exponent - 1) << 23;
    return __builtin_bit_cast(float, exponent == 255 ? 0x7fc00000u : bits);
  }
  __device__ static float factor(const char* row, const Chunk&, int t) {
    return half_scale(row, t) * 32768.0f;
  }
};

// Blocks of 64; a byte holds numbers 2 i (high half) and 2 i + 1. The table's values have more bits
// than float16: a second term holds the rest.
struct BatchNF4 : FormatBase {
  static constexpr int kBytes = 136, kPitch = 176, kAlign = 2, kEvery = 2, kTerms = 2;
  struct Chunk {
    __device__ Chunk(const char*, int) {}
  };
  /// high, low: the bytes of float16.
  __device__ static void from_table(const char* row, int c, int t, const unsigned (&high)[4],
                                    const unsigned (&low)[4], unsigned (&a)[4]) {
    unsigned words[1];
    load_words(row + t / 2 * 34 + 2 + t % 2 * 16 + 4 * c, words);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned nibbles = four_nibbles(words[0] >> (i == 0 ? 4 : 0));
      const unsigned high_bytes = look_up(high, nibbles), low_bytes = look_up(low, nibbles);
      a[i] = __byte_perm(low_bytes, high_bytes, 0x5140);
      a[2 + i] = __byte_perm(low_bytes, high_bytes, 0x7362);
    }
  }
  __device__ static void numbers(const char* row, const Chunk&, int c, int t, unsigned (&a)[4]) {
    constexpr unsigned kHigh[4] = {0xb6b8b9bcu, 0x00adb1b4u, 0x3533312du, 0x3c393837u};
    constexpr unsigned kLow[4] = {0x52339200u, 0x00d4ea8du, 0x68e02618u, 0x00c9800du};
    from_table(row, c, t, kHigh, kLow, a);
  }
  __device__ static void rests(const char* row, int c, int t, unsigned (&a)[4]) {
    constexpr unsigned kHigh[4] = {0x06890600u, 0x00000281u, 0x01010280u, 0x008a0702u};
    constexpr unsigned kLow[4] = {0xb0984f00u, 0x00f2b026u, 0x9d37b9a0u, 0x0026ab5cu};
    from_table(row, c, t, kHigh, kLow, a);
  }
  __device__ static float factor(const char* row, const Chunk&, int t) {
    return half_at(row + t / 2 * 34);
  }
};

// ---- blocks of 256 -----------------------------------------------------------------------------

/// Q4_K and Q5_K.
template <bool five>
struct BatchSixBits : FormatBase {
  static constexpr int kBytes = five ? 176 : 144, kPitch = five ? 224 : 160, kAlign = 16;
  static constexpr int kEvery = 8;
  static constexpr Lows kLows = Lows::groups_of_32;
  struct Chunk {
    float scale, low;
    unsigned scales[2], lows[2];  // bytes
    __device__ Chunk(const char* row, int) {
      const auto head = *reinterpret_cast<const uint4*>(row);
      scale = static_cast<float>(__builtin_bit_cast(Half, static_cast<unsigned short>(head.x)));
      low = static_cast<float>(__builtin_bit_cast(Half, static_cast<unsigned short>(head.x >> 16)));
      scales[0] = head.y & 0x3f3f3f3fu;
      scales[1] = (head.w & 0x0f0f0f0fu) | (head.y >> 2 & 0x30303030u);
      lows[0] = head.z & 0x3f3f3f3fu;
      lows[1] = (head.w >> 4 & 0x0f0f0f0fu) | (head.z >> 2 & 0x30303030u);
    }
  };
  __device__ static void numbers(const char* row, const Chunk& chunk, int c, int t,
                                 unsigned (&a)[4]) {
    const auto pair = *reinterpret_cast<const uint2*>(row + kBytes - 128 + t / 2 * 32 + 8 * c);
    const unsigned scale =
        add_pairs(twice(chunk.scales[t / 4], static_cast<unsigned>(t % 4)), kPairOfMinus1024);
    if constexpr (five) {
      const auto bits = *reinterpret_cast<const uint2*>(row + 16 + 8 * c);
      const unsigned off = multiply_pairs(scale, kPairOfMinus1024);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const unsigned fifth = (i == 0 ? bits.x : bits.y) >> t & 0x01010101u;
        const unsigned word = ((i == 0 ? pair.x : pair.y) >> t % 2 * 4 & 0x0f0f0f0fu) | fifth << 4;
        a[2 * i] = multiply_add_pairs(even_bytes(word), scale, off);
        a[2 * i + 1] = multiply_add_pairs(odd_bytes(word), scale, off);
      }
    } else {
      // High halves stay where they are, as numbers 16 times as large.
      constexpr unsigned kSixteenth = 0x2c002c00u, kMinus64 = 0xd400d400u;
      const unsigned mask = t % 2 == 0 ? 0x000f000fu : 0x00f000f0u;
      const unsigned step = t % 2 == 0 ? scale : multiply_pairs(scale, kSixteenth);
      const unsigned off = multiply_pairs(scale, t % 2 == 0 ? kPairOfMinus1024 : kMinus64);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const unsigned word = i == 0 ? pair.x : pair.y;
        a[2 * i] = multiply_add_pairs(onto_1024(word, mask), step, off);
        a[2 * i + 1] = multiply_add_pairs(onto_1024(word >> 8, mask), step, off);
      }
    }
  }
  __device__ static float factor(const char*, const Chunk& chunk, int) { return chunk.scale; }
  __device__ static unsigned low(const char*, const Chunk& chunk, int c, int) {
    const unsigned word = c < 2 ? chunk.lows[0] : chunk.lows[1];
    const unsigned first = static_cast<unsigned>(2 * c) & 3;
    return add_pairs(__byte_perm(word, kPairOf1024, 0x5050u | (first + 1) << 8 | first),
                     kPairOfMinus1024);
  }
  __device__ static float low_factor(const char*, const Chunk& chunk) { return -chunk.low; }
};
using BatchQ4_K = BatchSixBits<false>;
using BatchQ5_K = BatchSixBits<true>;

/// Q2_K, Q3_K and Q6_K: groups of 16 with scales of a byte each, `off` too large.
struct ByteScales {
  unsigned words[4];
  template <unsigned off>
  __device__ unsigned pair(int c, int t) const {
    return add_pairs(twice(words[t / 2], static_cast<unsigned>(t % 2 * 2 + c / 2)), off);
  }
};

struct BatchQ6_K : FormatBase {
  static constexpr int kBytes = 210, kPitch = 240, kAlign = 2, kEvery = 8;
  struct Chunk {
    ByteScales scales;
    float scale;
    UnalignedWords words;
    __device__ Chunk(const char* row, int c) : scale(half_at(row + 208)), words(row + 8 * c) {
      UnalignedWords(row).load(192, scales.words);
#pragma unroll
      for (unsigned& word : scales.words) word ^= 0x80808080u;
    }
  };
  __device__ static void numbers(const char*, const Chunk& chunk, int c, int t, unsigned (&a)[4]) {
    const int half = t / 4, plane = t % 4;
    unsigned low[2], high[2];
    chunk.words.load(64 * half + plane % 2 * 32, low);
    chunk.words.load(128 + 32 * half, high);
    const unsigned scale = chunk.scales.pair<kPairOfMinus1152>(c, t);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned word =
          (low[i] >> plane / 2 * 4 & 0x0f0f0f0fu) | (high[i] >> 2 * plane & 0x03030303u) << 4;
      a[2 * i] = multiply_pairs(add_pairs(even_bytes(word), kPairOfMinus1056), scale);
      a[2 * i + 1] = multiply_pairs(add_pairs(odd_bytes(word), kPairOfMinus1056), scale);
    }
  }
  __device__ static float factor(const char*, const Chunk& chunk, int) { return chunk.scale; }
};

struct BatchQ3_K : FormatBase {
  static constexpr int kBytes = 110, kPitch = 144, kAlign = 2, kEvery = 8;
  struct Chunk {
    ByteScales scales;
    float scale;
    __device__ Chunk(const char* row, int) : scale(half_at(row + 108)) {
      unsigned words[3];
      load_words(row + 96, words);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        scales.words[i] =
            (words[i % 2] >> i / 2 * 4 & 0x0f0f0f0fu) | (words[2] >> 2 * i & 0x03030303u) << 4;
    }
  };
  __device__ static void numbers(const char* row, const Chunk& chunk, int c, int t,
                                 unsigned (&a)[4]) {
    unsigned low[2], high[2];
    load_words(row + 32 + t / 4 * 32 + 8 * c, low);
    load_words(row + 8 * c, high);
    const unsigned scale = chunk.scales.pair<kPairOfMinus1056>(c, t);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned word = (low[i] >> t % 4 * 2 & 0x03030303u) | (high[i] >> t & 0x01010101u) << 2;
      a[2 * i] = multiply_pairs(add_pairs(even_bytes(word), kPairOfMinus1028), scale);
      a[2 * i + 1] = multiply_pairs(add_pairs(odd_bytes(word), kPairOfMinus1028), scale);
    }
  }
  __device__ static float factor(const char*, const Chunk& chunk, int) { return chunk.scale; }
};

struct BatchQ2_K : FormatBase {
  static constexpr int kBytes = 84, kPitch = 112, kAlign = 4, kEvery = 8;
  static constexpr Lows kLows = Lows::groups_of_16;
  struct Chunk {
    ByteScales scales, lows;
    float scale, low;
    __device__ Chunk(const char* row, int) : scale(half_at(row + 80)), low(half_at(row + 82)) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const unsigned word = reinterpret_cast<const unsigned*>(row)[i];
        scales.words[i] = word & 0x0f0f0f0fu;
        lows.words[i] = word >> 4 & 0x0f0f0f0fu;
      }
    }
  };
  __device__ static void numbers(const char* row, const Chunk& chunk, int c, int t,
                                 unsigned (&a)[4]) {
    const unsigned scale = chunk.scales.pair<kPairOfMinus1024>(c, t);
    const unsigned off = multiply_pairs(scale, kPairOfMinus1024);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned word =
          reinterpret_cast<const unsigned*>(row + 16 + t / 4 * 32 + 8 * c)[i] >> t % 4 * 2 &
          0x03030303u;
      a[2 * i] = multiply_add_pairs(even_bytes(word), scale, off);
      a[2 * i + 1] = multiply_add_pairs(odd_bytes(word), scale, off);
    }
  }
  __device__ static float factor(const char*, const Chunk& chunk, int) { return chunk.scale; }
  __device__ static unsigned low(const char*, const Chunk& chunk, int c, int i) {
    const unsigned word = c < 2 ? chunk.lows.words[2 * i] : chunk.lows.words[2 * i + 1];
    const unsigned first = static_cast<unsigned>(2 * c) & 3;
    return add_pairs(__byte_perm(word, kPairOf1024, 0x5050u | (first + 1) << 8 | first),
                     kPairOfMinus1024);
  }
  __device__ static float low_factor(const char*, const Chunk& chunk) { return -chunk.low; }
};

}  // namespace tensora::cuda

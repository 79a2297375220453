#pragma once

// Internal header
// The block formats as operands of the tensor cores. See Note [Few rows times quantized weights].

#include "tensora/ops/attention/attention_mma.cuh"
#include "tensora/ops/quant/blocks.h"

namespace tensora::cuda {

// Note [Numbers as operands]
// A format cuts a row into chunks and these into groups that have a scale of their own. Numbers of
// a group become bfloat16 by writing their few bits into the fraction of 128 (or 2048), which is
// exact; what they are too large by is taken off the sums, times the sum of the activations. So
// scales are applied to sums of a group, not to numbers. Of a row's group a thread holds the
// numbers 8 c to 8 c + 7, c its place among four (Order::eight; groups of 16: 4 c to 4 c + 3), or 4
// c to 4 c + 3 and 16 more (Order::halves), or pairs (i, i + 16) of these (Order::pairs): any order
// will do, if the activations come in the same.
// Bytes do not fit into bfloat16's fraction and take two terms. They fit into float16's: for a
// single row of activations it pays to turn these into float16, a group at a time brought near 1 by
// a power of two, so that nothing is lost (kNormalised).
enum class Order { eight, halves, pairs };

/// A sum's factor and what is subtracted per unit of the activations' sum, of two adjacent groups.
struct Factors {
  float scale[2], low[2];
};

inline constexpr unsigned kMagic = 0x43434343u;      // the high bytes of bfloat16's 128 to 255
inline constexpr unsigned kMagicHigh = 0x45454545u;  // of 2048 to 4095, in steps of 16

/// Four numbers in bytes, below 128, as bfloat16 in two words, each 128 too large.
__device__ inline void spread(unsigned bytes, unsigned magic, unsigned& low, unsigned& high) {
  low = __byte_perm(bytes, magic, 0x4140);
  high = __byte_perm(bytes, magic, 0x4342);
}

/// Four bytes at an address that is a multiple of `align`.
template <int align>
__device__ inline unsigned load_word(const char* from) {
  if constexpr (align >= 4) {
    return *reinterpret_cast<const unsigned*>(from);
  } else {
    const auto* const halves = reinterpret_cast<const unsigned short*>(from);
    return __byte_perm(halves[0], halves[1], 0x5410);
  }
}
__device__ inline float load_half(const char* from) {
  return static_cast<float>(*reinterpret_cast<const Half*>(from));
}

// What formats have unless they say otherwise.
struct TileBase {
  using Element = BFloat16;
  static constexpr int kChunk = 256, kGroup = 32, kTerms = 1, kStages = 2;
  static constexpr int kSections = 8, kSectionGroups = 1;
  static constexpr int kBlocks = 3;        // of threads on a multiprocessor, at least
  static constexpr int kAlign = 2;         // of a block's address
  static constexpr bool kScaled = true;    // groups have factors
  static constexpr bool kCentred = false;  // nothing is subtracted
  static constexpr bool kNormalised = false;
  static constexpr int kTable = 0;  // words in shared memory
  static constexpr Order kOrder = Order::eight;
  __device__ static int group(int section, int) { return section; }
  __device__ static unsigned table_word(int) { return 0; }
};

// ---- 8 bits
// --------------------------------------------------------------------------------------

// A signed byte as 16 (high + 8) - 128 + low, in two terms.
__device__ inline void spread_bytes(unsigned word, unsigned (&low)[2], unsigned (&high)[2]) {
  spread(word & 0x0f0f0f0fu, kMagic, low[0], low[1]);
  spread((word >> 4 & 0x0f0f0f0fu) ^ 0x08080808u, kMagicHigh, high[0], high[1]);
}
inline constexpr float kByteOffset = 128 + 2048 + 128;
inline constexpr unsigned kMagicHalf = 0x64646464u;  // the high bytes of float16's 1024 to 1279
inline constexpr float kByteOffsetHalf = 1024 + 128;

// The tile for one row of activations.
template <class Tile>
struct OneRowTile {
  using type = Tile;
};

struct TileQ8_0 : TileBase {
  static constexpr int kBytes = 272, kPitch = 288, kTerms = 2;
  __device__ static void section(const char* row, int c, int s, const unsigned*,
                                 unsigned (&a)[1][2][4]) {
    const char* const from = row + s * 34 + 2 + 8 * c;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unsigned low[2], high[2];
      spread_bytes(load_word<2>(from + 4 * i), low, high);
      a[0][0][2 * i] = low[0], a[0][0][2 * i + 1] = low[1];
      a[0][1][2 * i] = high[0], a[0][1][2 * i + 1] = high[1];
    }
  }
  __device__ static Factors factors(const char* row, int pair) {
    Factors f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      f.scale[i] = load_half(row + (2 * pair + i) * 34);
      f.low[i] = f.scale[i] * kByteOffset;
    }
    return f;
  }
};

struct TileInt8 : TileBase {
  static constexpr int kBytes = 256, kPitch = 288, kTerms = 2, kAlign = 8, kBlocks = 2;
  static constexpr bool kScaled = false;
  static constexpr float kOffset = kByteOffset;
  __device__ static void section(const char* row, int c, int s, const unsigned*,
                                 unsigned (&a)[1][2][4]) {
    const auto words = *reinterpret_cast<const uint2*>(row + s * 32 + 8 * c);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unsigned low[2], high[2];
      spread_bytes(i == 0 ? words.x : words.y, low, high);
      a[0][0][2 * i] = low[0], a[0][0][2 * i + 1] = low[1];
      a[0][1][2 * i] = high[0], a[0][1][2 * i + 1] = high[1];
    }
  }
};

struct TileInt8One : TileInt8 {
  using Element = Half;
  static constexpr int kTerms = 1;
  static constexpr bool kNormalised = true;
  static constexpr float kOffset = kByteOffsetHalf;
  __device__ static void section(const char* row, int c, int s, const unsigned*,
                                 unsigned (&a)[1][1][4]) {
    const auto words = *reinterpret_cast<const uint2*>(row + s * 32 + 8 * c);
    spread(words.x ^ 0x80808080u, kMagicHalf, a[0][0][0], a[0][0][1]);
    spread(words.y ^ 0x80808080u, kMagicHalf, a[0][0][2], a[0][0][3]);
  }
};

// float8_e4m3fn: the bits moved into bfloat16's places are 2^-120 times the number. NaN, which no
// finite weight becomes, turns into 480.
struct TileFloat8 : TileBase {
  static constexpr int kBytes = 256, kPitch = 288, kAlign = 8;
  static constexpr bool kScaled = false, kCentred = true;
  __device__ static unsigned widened(unsigned bytes) {  // in the high bytes of two halves
    const unsigned bits = (bytes & 0x80008000u) | (bytes >> 4 & 0x07f007f0u);
    unsigned result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(result)
        : "r"(bits), "r"(0x7b807b80u), "r"(0x80008000u));
    return result;
  }
  __device__ static void section(const char* row, int c, int s, const unsigned*,
                                 unsigned (&a)[1][1][4]) {
    const auto words = *reinterpret_cast<const uint2*>(row + s * 32 + 8 * c);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[0][0][i] = widened(__byte_perm(i < 2 ? words.x : words.y, 0, i % 2 == 0 ? 0x1404 : 0x3424));
  }
};

// ---- 16 bits
// -------------------------------------------------------------------------------------

template <class T>
struct TileHalf : TileBase {
  using Element = T;
  static constexpr int kChunk = 128, kBytes = 256, kPitch = 320, kSections = 4;
  static constexpr int kAlign = 16;
  static constexpr bool kScaled = false, kCentred = true;
  __device__ static void section(const char* row, int c, int s, const unsigned*,
                                 unsigned (&a)[1][1][4]) {
    const auto words = *reinterpret_cast<const uint4*>(row + s * 64 + 16 * c);
    a[0][0][0] = words.x, a[0][0][1] = words.y, a[0][0][2] = words.z, a[0][0][3] = words.w;
  }
};

// ---- 4 and 5 bits in blocks of 32
// ----------------------------------------------------------------

// `bytes` of a block with the 4-bit numbers in the last 16; a fifth bit of each in the 4 before, if
// `five`.
template <int bytes, int align, bool five, bool affine>
struct TileNibbles : TileBase {
  static constexpr int kBytes = bytes * 8, kAlign = align;
  static constexpr int kPitch = (kBytes + 16 - align + 15) / 16 * 16 + (bytes == 24 ? 16 : 0);
  static constexpr Order kOrder = Order::halves;
  __device__ static void section(const char* row, int c, int s, const unsigned*,
                                 unsigned (&a)[1][1][4]) {
    const char* const block = row + s * bytes;
    const unsigned word = load_word<align>(block + bytes - 16 + 4 * c);
    unsigned low = word & 0x0f0f0f0fu, high = word >> 4 & 0x0f0f0f0fu;
    if constexpr (five) {
      // Bit i of four goes to bit 4 of byte i.
      const unsigned bits = load_word<align>(block + bytes - 20) >> 4 * c;
      low |= (bits & 15) * 0x02040810u & 0x10101010u;
      high |= (bits >> 16 & 15) * 0x02040810u & 0x10101010u;
    }
    spread(low, kMagic, a[0][0][0], a[0][0][1]);
    spread(high, kMagic, a[0][0][2], a[0][0][3]);
  }
  __device__ static Factors factors(const char* row, int pair) {
    Factors f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const char* const block = row + (2 * pair + i) * bytes;
      f.scale[i] = load_half(block);
      if constexpr (affine)
        f.low[i] = f.scale[i] * 128.0f - load_half(block + 2);
      else
        f.low[i] = f.scale[i] * (five ? 144.0f : 136.0f);
    }
    return f;
  }
};
using TileQ4_0 = TileNibbles<18, 2, false, false>;
using TileQ4_1 = TileNibbles<20, 4, false, true>;
using TileQ5_0 = TileNibbles<22, 2, true, false>;
using TileQ5_1 = TileNibbles<24, 8, true, true>;

// ---- 4 bits that stand for the values of a table
// -------------------------------------------------

// A byte's two numbers as a pair of bfloat16: low half first.
__device__ inline unsigned pair_of(float low, float high) {
  return round_pair<BFloat16>(low, high);
}

// Blocks of 32 with pairs (i, i + 16) in a byte; `Block` gives the values.
template <class Block, int bytes, int before>
struct TileTable : TileBase {
  static constexpr int kBytes = bytes * 8, kAlign = bytes % 2 == 0 ? 2 : 1;
  static constexpr int kPitch = (kBytes + 16 - kAlign + 15) / 16 * 16;
  static constexpr int kTable = 256, kBlocks = 2;
  static constexpr bool kCentred = true;
  static constexpr Order kOrder = Order::pairs;
  __device__ static float value(int code) {
    if constexpr (kAlign == 1)
      return static_cast<float>(BlockMXFP4::doubled(code));
    else
      return static_cast<float>(SteppedTable::value(code));
  }
  __device__ static unsigned table_word(int i) { return pair_of(value(i & 15), value(i >> 4)); }
  __device__ static void section(const char* row, int c, int s, const unsigned* table,
                                 unsigned (&a)[1][1][4]) {
    const auto* const from =
        reinterpret_cast<const unsigned char*>(row + s * bytes + before + 4 * c);
#pragma unroll
    for (int i = 0; i < 4; ++i) a[0][0][i] = table[from[i]];
  }
  __device__ static Factors factors(const char* row, int pair) {
    Factors f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto& block = *reinterpret_cast<const Block*>(row + (2 * pair + i) * bytes);
      if constexpr (kAlign == 1)
        f.scale[i] = block.half_scale();
      else
        f.scale[i] = static_cast<float>(block.scale);
      f.low[i] = 0;
    }
    return f;
  }
};
using TileIQ4_NL = TileTable<BlockIQ4_NL, 18, 2>;
using TileMXFP4 = TileTable<BlockMXFP4, 17, 1>;

struct TileIQ4_XS : TileTable<BlockIQ4_NL, 18, 2> {
  static constexpr int kBytes = 136, kAlign = 8, kPitch = 144;
  __device__ static void section(const char* row, int c, int s, const unsigned* table,
                                 unsigned (&a)[1][1][4]) {
    const unsigned word = load_word<4>(row + 8 + s * 16 + 4 * c);
#pragma unroll
    for (int i = 0; i < 4; ++i) a[0][0][i] = table[word >> 8 * i & 255];
  }
  __device__ static Factors factors(const char* row, int pair) {
    const auto& block = *reinterpret_cast<const BlockIQ4_XS*>(row);
    const float scale = static_cast<float>(block.scale);
    return {{scale * static_cast<float>(block.group_scale(2 * pair)),
             scale * static_cast<float>(block.group_scale(2 * pair + 1))},
            {}};
  }
};

// Blocks of 64; a byte holds numbers 2 i (high half) and 2 i + 1. The table's values have more bits
// than bfloat16: a second term holds the rest.
struct TileNF4 : TileBase {
  static constexpr int kBytes = 136, kPitch = 160, kTerms = 2, kTable = 512, kBlocks = 2;
  static constexpr bool kCentred = true;
  __device__ static unsigned table_word(int i) {
    float first = BlockNF4::value(i >> 4 & 15), second = BlockNF4::value(i & 15);
    if (i >= 256) {
      first -= static_cast<float>(round_to_bfloat16(first));
      second -= static_cast<float>(round_to_bfloat16(second));
    }
    return pair_of(first, second);
  }
  __device__ static void section(const char* row, int c, int s, const unsigned* table,
                                 unsigned (&a)[1][2][4]) {
    const unsigned word = load_word<2>(row + s / 2 * 34 + 2 + s % 2 * 16 + 4 * c);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned code = word >> 8 * i & 255;
      a[0][0][i] = table[code];
      a[0][1][i] = table[code + 256];
    }
  }
  __device__ static Factors factors(const char* row, int pair) {
    const float scale = load_half(row + pair * 34);
    return {{scale, scale}, {}};
  }
};

// ---- blocks of 256
// -------------------------------------------------------------------------------

// Scales and offsets of groups 2 pair and 2 pair + 1, six bits each in bytes.
struct SixBits {
  unsigned scales, lows;
  __device__ SixBits(const char* from, int pair) {
    const auto* const halves = reinterpret_cast<const unsigned short*>(from) + (pair & 1);
    const unsigned first = halves[0], second = halves[2], third = halves[4];
    const bool late = pair >= 2;
    scales = late ? (third & 0x0f0fu) | (first >> 2 & 0x3030u) : first & 0x3f3fu;
    lows = late ? (third >> 4 & 0x0f0fu) | (second >> 2 & 0x3030u) : second & 0x3f3fu;
  }
  __device__ Factors factors(float scale, float low) const {
    Factors f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      f.scale[i] = scale * static_cast<float>(scales >> 8 * i & 255);
      f.low[i] = fmaf(low, static_cast<float>(lows >> 8 * i & 255), f.scale[i] * 128.0f);
    }
    return f;
  }
};

// Q4_K and Q5_K: a section holds groups 2 s (low halves) and 2 s + 1.
template <int bytes>
struct TileSixBits : TileBase {
  static constexpr bool five = bytes == 176;
  static constexpr int kBytes = bytes, kPitch = five ? 176 + 16 : 160, kAlign = 16, kStages = 3;
  static constexpr int kSections = 4, kSectionGroups = 2;
  __device__ static int group(int section, int i) { return 2 * section + i; }
  __device__ static void section(const char* row, int c, int s, const unsigned*,
                                 unsigned (&a)[2][1][4]) {
    const auto words = *reinterpret_cast<const uint2*>(row + bytes - 128 + s * 32 + 8 * c);
    unsigned fifth[2] = {};
    if constexpr (five) {
      const auto bits = *reinterpret_cast<const uint2*>(row + 16 + 8 * c);
      fifth[0] = bits.x, fifth[1] = bits.y;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned word = i == 0 ? words.x : words.y;
      unsigned low = word & 0x0f0f0f0fu, high = word >> 4 & 0x0f0f0f0fu;
      if constexpr (five) {
        low |= fifth[i] >> 2 * s << 4 & 0x10101010u;
        high |= fifth[i] >> (2 * s + 1) << 4 & 0x10101010u;
      }
      spread(low, kMagic, a[0][0][2 * i], a[0][0][2 * i + 1]);
      spread(high, kMagic, a[1][0][2 * i], a[1][0][2 * i + 1]);
    }
  }
  __device__ static Factors factors(const char* row, int pair) {
    return SixBits(row + 4, pair).factors(load_half(row), load_half(row + 2));
  }
};
using TileQ4_K = TileSixBits<144>;
using TileQ5_K = TileSixBits<176>;

// Q2_K, Q3_K and Q6_K: groups of 16; section (h, t) holds groups 8 h + 2 p + t for planes p.
struct TilePlanes : TileBase {
  static constexpr int kGroup = 16, kSections = 4, kSectionGroups = 4;
  __device__ static int group(int section, int i) { return section / 2 * 8 + 2 * i + section % 2; }
};

struct TileQ6_K : TilePlanes {
  static constexpr int kBytes = 210, kPitch = 240;
  __device__ static void section(const char* row, int c, int s, const unsigned*,
                                 unsigned (&a)[4][1][2]) {
    const int h = s / 2, at = s % 2 * 16 + 4 * c;
    const unsigned first = load_word<2>(row + 64 * h + at);
    const unsigned second = load_word<2>(row + 64 * h + 32 + at);
    const unsigned high = load_word<2>(row + 128 + 32 * h + at);
    spread((first & 0x0f0f0f0fu) | (high << 4 & 0x30303030u), kMagic, a[0][0][0], a[0][0][1]);
    spread((second & 0x0f0f0f0fu) | (high << 2 & 0x30303030u), kMagic, a[1][0][0], a[1][0][1]);
    spread((first >> 4 & 0x0f0f0f0fu) | (high & 0x30303030u), kMagic, a[2][0][0], a[2][0][1]);
    spread((second >> 4 & 0x0f0f0f0fu) | (high >> 2 & 0x30303030u), kMagic, a[3][0][0], a[3][0][1]);
  }
  __device__ static Factors factors(const char* row, int pair) {
    const float scale = load_half(row + 208);
    Factors f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      f.scale[i] = scale * static_cast<float>(
                               *reinterpret_cast<const signed char*>(row + 192 + 2 * pair + i));
      f.low[i] = f.scale[i] * 160.0f;
    }
    return f;
  }
};

struct TileQ3_K : TilePlanes {
  static constexpr int kBytes = 110, kPitch = 144;
  __device__ static void section(const char* row, int c, int s, const unsigned*,
                                 unsigned (&a)[4][1][2]) {
    const int h = s / 2, at = s % 2 * 16 + 4 * c;
    const unsigned low = load_word<2>(row + 32 + 32 * h + at), high = load_word<2>(row + at);
#pragma unroll
    for (int p = 0; p < 4; ++p)
      spread((low >> 2 * p & 0x03030303u) | (high >> (4 * h + p) << 2 & 0x04040404u), kMagic,
             a[p][0][0], a[p][0][1]);
  }
  __device__ static Factors factors(const char* row, int pair) {
    const auto& block = *reinterpret_cast<const BlockQ3_K*>(row);
    const float scale = static_cast<float>(block.scale);
    Factors f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      f.scale[i] = scale * static_cast<float>(block.group_scale(2 * pair + i));
      f.low[i] = f.scale[i] * 132.0f;
    }
    return f;
  }
};

struct TileQ2_K : TilePlanes {
  static constexpr int kBytes = 84, kPitch = 112, kAlign = 4;
  __device__ static void section(const char* row, int c, int s, const unsigned*,
                                 unsigned (&a)[4][1][2]) {
    const unsigned word = load_word<4>(row + 16 + s / 2 * 32 + s % 2 * 16 + 4 * c);
#pragma unroll
    for (int p = 0; p < 4; ++p) spread(word >> 2 * p & 0x03030303u, kMagic, a[p][0][0], a[p][0][1]);
  }
  __device__ static Factors factors(const char* row, int pair) {
    const float scale = load_half(row + 80), low = load_half(row + 82);
    Factors f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned codes = *reinterpret_cast<const unsigned char*>(row + 2 * pair + i);
      f.scale[i] = scale * static_cast<float>(codes & 15);
      f.low[i] = fmaf(low, static_cast<float>(codes >> 4), f.scale[i] * 128.0f);
    }
    return f;
  }
};

template <>
struct OneRowTile<TileInt8> {
  using type = TileInt8One;
};

}  // namespace tensora::cuda

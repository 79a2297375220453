#pragma once

// Internal header
// Activations and block formats in whole numbers. See Note [Several rows in whole numbers].

#include "tensora/ops/quant/quant_batch_formats.cuh"
#include "tensora/ops/quant/quant_one_row_bytes.cuh"

namespace tensora::cuda {

/// `count` rows of activations as bytes, 256 numbers (a chunk) after the other. A chunk has eight
/// groups of 32 numbers, each with a piece of 32 bytes per column: the high bytes of row 0, its low
/// bytes, those of row 1, ... Behind all chunks: a scale for each row and chunk, and `sums_of` sums
/// of 256 / sums_of numbers.
template <int count, int sums_of>
struct ByteRows {
  static constexpr int kChunk = 256, kTiles = count / 4;  // of columns
  static constexpr int kChunkBytes = 2 * kChunk * count;
  char* x;
  float* scales;
  int* sums;

  __device__ ByteRows(char* shared, int chunks)
      : x(shared),
        scales(reinterpret_cast<float*>(shared + chunks * kChunkBytes)),
        sums(reinterpret_cast<int*>(scales + chunks * count)) {}
  __host__ __device__ static constexpr int bytes(int chunks) {
    return (chunks * (kChunkBytes + count * (1 + sums_of) * 4) + 127) / 128 * 128;
  }

  /// This lane's bytes of a group: of column lane / 4, pieces 8 c to 8 c + 7.
  __device__ uint2 words(int chunk, int group, int tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return *reinterpret_cast<const uint2*>(x + chunk * kChunkBytes + (group * kTiles + tile) * 256 +
                                           lane * 8);
  }
  __device__ float scale(int chunk, int row) const { return scales[chunk * count + row]; }
  __device__ const int* sums_at(int chunk, int row) const {
    return sums + (chunk * count + row) * sums_of;
  }

  /// Numbers 8 lane to 8 lane + 7 of a row's chunk, as four pairs of bfloat16. With sums of 16
  /// numbers, groups are multiplied in halves: bytes 8 c to 8 c + 3 of a piece are numbers 4 c to
  /// 4 c + 3 of its first 16, the four after them those of its second 16.
  __device__ void put(int row, int chunk, const uint4& pairs) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    constexpr float kLargest = 127 * 256;
    const unsigned words[4] = {pairs.x, pairs.y, pairs.z, pairs.w};
    unsigned bits = 0;  // the largest magnitude
#pragma unroll
    for (unsigned pair : words) bits = max(bits, max(pair & 0x7fffu, pair >> 16 & 0x7fffu));
    const unsigned all = min(__reduce_max_sync(kWholeWarp, bits), 0x7f80u);
    const float most = __builtin_bit_cast(float, all << 16);
    const float inverse = most > 0 ? __fdividef(kLargest, most) : 0.0f;
    // Added to 1.5 * 2^23, a number is in the low bits.
    constexpr float kOffset = 12582912.0f;
    constexpr unsigned kOffsetBits = 0x4b400000u;
    unsigned bits_of[8], total = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const unsigned number_bits = i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u;
      bits_of[i] = __builtin_bit_cast(
          unsigned, fmaf(__builtin_bit_cast(float, number_bits), inverse, kOffset));
      total += bits_of[i];
    }
    int sum = static_cast<int>(total - 8 * kOffsetBits);
    unsigned high[2], low[2];  // a number is 256 times its high byte plus its low one, with a sign
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned* const four = bits_of + 4 * i;
      low[i] = __byte_perm(__byte_perm(four[0], four[1], 0x0040),
                           __byte_perm(four[2], four[3], 0x0040), 0x5410);
      high[i] = __byte_perm(__byte_perm(four[0] + 128, four[1] + 128, 0x0051),
                            __byte_perm(four[2] + 128, four[3] + 128, 0x0051), 0x5410);
    }
    const int group = lane / 4, q = lane % 4;
    char* const own = x + chunk * kChunkBytes + (group * kTiles + row / 4) * 256 + row % 4 * 64;
    if constexpr (sums_of == 16) {
      char* const first = own + q % 2 * 16 + q / 2 * 4;
      *reinterpret_cast<unsigned*>(first) = high[0];
      *reinterpret_cast<unsigned*>(first + 8) = high[1];
      *reinterpret_cast<unsigned*>(first + 32) = low[0];
      *reinterpret_cast<unsigned*>(first + 40) = low[1];
    } else {
      *reinterpret_cast<uint2*>(own + q * 8) = {high[0], high[1]};
      *reinterpret_cast<uint2*>(own + 32 + q * 8) = {low[0], low[1]};
    }
    if constexpr (sums_of > 0) {
      sum += __shfl_xor_sync(kWholeWarp, sum, 1);
      if constexpr (sums_of == 8) sum += __shfl_xor_sync(kWholeWarp, sum, 2);
      constexpr int kLanes = 32 / sums_of;
      if (lane % kLanes == 0) const_cast<int*>(sums_at(chunk, row))[lane / kLanes] = sum;
    }
    if (lane == 0)
      scales[chunk * count + row] =
          most < __builtin_huge_valf() ? most * (1.0f / kLargest) : __builtin_nanf("");
  }

  /// `there` rows of k numbers, of which row_of(i) gives the address; the others become 0. A warp
  /// converts the chunks that it will multiply: every `warps`-th.
  template <int warps, class RowOf>
  __device__ void stage(const RowOf& row_of, int there, int k, int chunks) const {
    constexpr int kAhead = 8;  // loads in flight
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    struct Place {
      int row, chunk;
      __device__ void advance(int rows) {
        if (++row == rows) row = 0, chunk += warps;
      }
    };
    Place next{0, warp}, at{0, warp};
    const auto read = [&] {
      const int number = next.chunk * kChunk + 8 * lane;
      const bool inside = next.chunk < chunks && number < k;
      const uint4 pairs =
          inside ? __ldcg(reinterpret_cast<const uint4*>(row_of(next.row) + int64_t{number} * 2))
                 : uint4{};
      next.advance(there);
      return pairs;
    };
    uint4 ahead[kAhead];
#pragma unroll
    for (uint4& pairs : ahead) pairs = read();
#pragma unroll 1
    for (; at.chunk < chunks; at.advance(there)) {
      const uint4 pairs = ahead[0];
#pragma unroll
      for (int i = 0; i + 1 < kAhead; ++i) ahead[i] = ahead[i + 1];
      ahead[kAhead - 1] = read();
      put(at.row, at.chunk, pairs);
    }
#pragma unroll 1
    for (int chunk = warp; chunk < chunks; chunk += warps)
#pragma unroll 1
      for (int row = there; row < count; ++row) clear(row, chunk);
    __syncwarp();
  }

  __device__ void clear(int row, int chunk) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    char* const own = x + chunk * kChunkBytes + (lane / 4 * kTiles + row / 4) * 256 + row % 4 * 64;
    *reinterpret_cast<uint4*>(own + lane % 4 * 16) = uint4{};
    if (lane < sums_of) const_cast<int*>(sums_at(chunk, row))[lane] = 0;
    if (lane == 0) scales[chunk * count + row] = 0;
  }
};

// ---- formats -----------------------------------------------------------------------------------
// multiply: sums[tile][half] += a chunk of this thread's two weight rows times activation row
// 4 tile + c.

/// Q4_K and Q5_K: groups of 32 with whole factors and offsets of six bits.
template <int block_bytes>
struct SeveralSixBits {
  using Tile = TileSixBits<block_bytes>;
  static constexpr int kSums = 8;
  template <class Rows>
  __device__ static void multiply(const Rows& x, int chunk, const char* const (&rows)[2],
                                  float (&sums)[Rows::kTiles][2]) {
    constexpr bool five = block_bytes == 176;
    const int c = static_cast<int>(threadIdx.x) % 4;
    using Head = typename BatchSixBits<five>::Chunk;
    const Head heads[2] = {Head(rows[0], c), Head(rows[1], c)};
    uint2 fifth[2] = {};
    if constexpr (five) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        fifth[half] = *reinterpret_cast<const uint2*>(rows[half] + 16 + 8 * c);
    }
    int high[Rows::kTiles][2] = {}, low[Rows::kTiles][2] = {};
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      unsigned a[2][4];  // group 2 s and the next
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto words =
            *reinterpret_cast<const uint2*>(rows[half] + block_bytes - 128 + s * 32 + 8 * c);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const unsigned word = i == 0 ? words.x : words.y;
          a[0][2 * i + half] = word & 0x0f0f0f0fu;
          a[1][2 * i + half] = word >> 4 & 0x0f0f0f0fu;
          if constexpr (five) {
            const unsigned bits = i == 0 ? fifth[half].x : fifth[half].y;
            a[0][2 * i + half] |= bits >> 2 * s << 4 & 0x10101010u;
            a[1][2 * i + half] |= bits >> (2 * s + 1) << 4 & 0x10101010u;
          }
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int t = 2 * s + i;
#pragma unroll
        for (int tile = 0; tile < Rows::kTiles; ++tile) {
          const uint2 b = x.words(chunk, t, tile);
          int products[4] = {};
          multiply_add_bytes(products, a[i], b.x, b.y);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int factor = static_cast<int>(heads[half].scales[t / 4] >> t % 4 * 8 & 255);
            high[tile][half] += products[2 * half] * factor;
            low[tile][half] += products[2 * half + 1] * factor;
          }
        }
      }
    }
#pragma unroll
    for (int tile = 0; tile < Rows::kTiles; ++tile) {
      const auto* const of_groups = reinterpret_cast<const int4*>(x.sums_at(chunk, 4 * tile + c));
      const int4 first = of_groups[0], second = of_groups[1];
      const int of_group[8] = {first.x,  first.y,  first.z,  first.w,
                               second.x, second.y, second.z, second.w};
      const float scale = x.scale(chunk, 4 * tile + c);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        int lows = 0;
#pragma unroll
        for (int t = 0; t < 8; ++t)
          lows += of_group[t] * static_cast<int>(heads[half].lows[t / 4] >> t % 4 * 8 & 255);
        const float total =
            fmaf(static_cast<float>(high[tile][half]), 256.0f, static_cast<float>(low[tile][half]));
        const float part = heads[half].scale * total - heads[half].low * static_cast<float>(lows);
        sums[tile][half] = fmaf(part, scale, sums[tile][half]);
      }
    }
  }
};

/// Q6_K: groups of 16 with whole factors of eight bits; numbers are 32 too large.
struct SeveralQ6_K {
  using Tile = TileQ6_K;
  static constexpr int kSums = 16;
  template <class Rows>
  __device__ static void multiply(const Rows& x, int chunk, const char* const (&rows)[2],
                                  float (&sums)[Rows::kTiles][2]) {
    const int c = static_cast<int>(threadIdx.x) % 4;
    unsigned factors[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) load_words(rows[half] + 192, factors[half]);
    const auto factor = [&](int half, int group) {
      return static_cast<int>(factors[half][group / 4] << (3 - group % 4) * 8) >> 24;
    };
    int high[Rows::kTiles][2] = {}, low[Rows::kTiles][2] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h) {  // 128 numbers
      unsigned a[2][4][2];         // half of a group of 32, plane, row
#pragma unroll
      for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int place = t * 16 + 4 * c;
          const unsigned first = load_word<2>(rows[half] + 64 * h + place);
          const unsigned second = load_word<2>(rows[half] + 64 * h + 32 + place);
          const unsigned top = load_word<2>(rows[half] + 128 + 32 * h + place);
          a[t][0][half] = (first & 0x0f0f0f0fu) | (top << 4 & 0x30303030u);
          a[t][1][half] = (second & 0x0f0f0f0fu) | (top << 2 & 0x30303030u);
          a[t][2][half] = (first >> 4 & 0x0f0f0f0fu) | (top & 0x30303030u);
          a[t][3][half] = (second >> 4 & 0x0f0f0f0fu) | (top >> 2 & 0x30303030u);
        }
#pragma unroll
      for (int p = 0; p < 4; ++p)
#pragma unroll
        for (int tile = 0; tile < Rows::kTiles; ++tile) {
          const uint2 b = x.words(chunk, 4 * h + p, tile);
#pragma unroll
          for (int t = 0; t < 2; ++t) {
            int products[4] = {};
            multiply_add_bytes(products, a[t][p][0], a[t][p][1], t == 0 ? b.x : b.y);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              high[tile][half] += products[2 * half] * factor(half, 8 * h + 2 * p + t);
              low[tile][half] += products[2 * half + 1] * factor(half, 8 * h + 2 * p + t);
            }
          }
        }
    }
#pragma unroll
    for (int tile = 0; tile < Rows::kTiles; ++tile) {
      const auto* const of_groups = reinterpret_cast<const int4*>(x.sums_at(chunk, 4 * tile + c));
      int lows[2] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int4 four = of_groups[i];
        const int each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int half = 0; half < 2; ++half) lows[half] += each[j] * factor(half, 4 * i + j);
      }
      const float of_row = x.scale(chunk, 4 * tile + c);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float total = fmaf(static_cast<float>(high[tile][half]), 256.0f,
                                 static_cast<float>(low[tile][half])) -
                            32.0f * static_cast<float>(lows[half]);
        sums[tile][half] = fmaf(total * half_at(rows[half] + 208), of_row, sums[tile][half]);
      }
    }
  }
};

/// Formats with a factor for each group of 32: `Format::bytes` gives numbers 8 c to 8 c + 7.
template <class Format>
struct SeveralGroups {
  using Tile = typename Format::Tile;
  static constexpr int kSums = 0;
  template <class Rows>
  __device__ static void multiply(const Rows& x, int chunk, const char* const (&rows)[2],
                                  float (&sums)[Rows::kTiles][2]) {
    const int c = static_cast<int>(threadIdx.x) % 4;
    float parts[Rows::kTiles][2] = {};
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      unsigned a[4];
      float factor[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        unsigned words[2];
        Format::bytes(rows[half], c, t, words);
        a[half] = words[0], a[2 + half] = words[1];
        factor[half] = Format::Numbers::factor(rows[half], {rows[half], c}, t);
      }
#pragma unroll
      for (int tile = 0; tile < Rows::kTiles; ++tile) {
        const uint2 b = x.words(chunk, t, tile);
        int products[4] = {};
        multiply_add_bytes(products, a, b.x, b.y);
#pragma unroll
        for (int half = 0; half < 2; ++half)
          parts[tile][half] =
              fmaf(static_cast<float>(whole(products[2 * half], products[2 * half + 1])),
                   factor[half], parts[tile][half]);
      }
    }
#pragma unroll
    for (int tile = 0; tile < Rows::kTiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        sums[tile][half] = fmaf(parts[tile][half], x.scale(chunk, 4 * tile + c), sums[tile][half]);
  }
};

struct GroupsQ8_0 {
  using Tile = TileQ8_0;
  using Numbers = BatchQ8_0;
  __device__ static void bytes(const char* row, int c, int t, unsigned (&words)[2]) {
    load_words(row + t * 34 + 2 + 8 * c, words);
  }
};
struct GroupsQ4_0 {
  using Tile = TileQ4_0;
  using Numbers = BatchQ4_0;
  __device__ static void bytes(const char* row, int c, int t, unsigned (&words)[2]) {
    load_words(row + t * 18 + 2 + 8 * (c & 1), words);
#pragma unroll
    for (unsigned& word : words) {
      // Minus 8: no byte borrows from the next.
      word = ((word >> c / 2 * 4 & 0x0f0f0f0fu) | 0x80808080u) - 0x08080808u;
      word ^= 0x80808080u;
    }
  }
};
/// Codes of four bits that index a table of bytes, in the last 16 bytes of a block.
template <class TileOf, class NumbersOf, int block_bytes>
struct GroupsOfTable {
  using Tile = TileOf;
  using Numbers = NumbersOf;
  __device__ static void bytes(const char* row, int c, int t, unsigned (&words)[2]) {
    constexpr bool doubled = block_bytes == 17;  // MXFP4: its factor halves them
    constexpr unsigned kTable[4] = {
        doubled ? 0x03020100u : 0xbfad9881u, doubled ? 0x0c080604u : 0xf6eaddcfu,
        doubled ? 0xfdfeff00u : 0x26190d01u, doubled ? 0xf4f8fafcu : 0x71594535u};
    load_words(row + t * block_bytes + block_bytes - 16 + 8 * (c & 1), words);
#pragma unroll
    for (unsigned& word : words) word = look_up(kTable, four_nibbles(word >> c / 2 * 4));
  }
};
struct NumbersMXFP4 : BatchMXFP4 {
  __device__ static float factor(const char* row, const Chunk&, int t) {
    return half_scale(row, t);
  }
};
using GroupsIQ4_NL = GroupsOfTable<TileIQ4_NL, BatchIQ4_NL, 18>;
using GroupsMXFP4 = GroupsOfTable<TileMXFP4, NumbersMXFP4, 17>;

}  // namespace tensora::cuda

#pragma once

// Internal header
// One row of activations times Q4_K, Q5_K, Q6_K and Q8_0 in whole numbers.

#include "tensora/ops/quant/quant_one_row.cuh"

// Note [One row in whole numbers]
// To make floating-point operands of packed weights takes more instructions than reading them takes
// time. Bytes need less: four or six bits are masked, eight are there. So activations become whole
// numbers of 16 bits, by one scale for each 256, which is as exact as bfloat16 is for the largest
// of them; they are held as two bytes, high and low, and each is multiplied by the weights on the
// tensor cores, exactly. Whole factors of groups are applied to whole sums. Activations that are
// not finite make the scale NaN.

namespace tensora::cuda {

/// sum (16 x 8) += a (16 x 32) @ b (32 x 8), bytes with a sign, spread over a warp.
__device__ inline void multiply_add_bytes(int (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                          unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// The same for (16 x 16) @ (16 x 8).
__device__ inline void multiply_add_bytes(int (&sum)[4], unsigned a0, unsigned a1, unsigned b) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a0), "r"(a1), "r"(b));
}

/// A row of activations as bytes, in the place of bfloat16: of each 256 the high ones, then the low
/// ones; behind all, a scale for each 256, and the sums of each 16.
struct ByteRow {
  static constexpr int kChunk = 256, kGroups = 16;
  char* x;
  float* scales;
  int* sums;

  __device__ ByteRow(char* shared, int padded)
      : x(shared),
        scales(reinterpret_cast<float*>(shared + padded * 2)),
        sums(reinterpret_cast<int*>(scales + padded / kChunk)) {}
  __host__ __device__ static constexpr int bytes(int padded) {
    return (padded * 2 + padded / kChunk * (1 + kGroups) * 4 + 127) / 128 * 128;
  }

  /// Numbers 8 lane to 8 lane + 7 of a chunk, as four pairs of bfloat16.
  __device__ void put(int chunk, const unsigned (&pairs)[4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    constexpr float kLargest = 127 * 256;
    unsigned bits = 0;  // the largest magnitude
#pragma unroll
    for (unsigned pair : pairs) bits = max(bits, max(pair & 0x7fffu, pair >> 16 & 0x7fffu));
    const unsigned all = min(__reduce_max_sync(kWholeWarp, bits), 0x7f80u);
    const float most = __builtin_bit_cast(float, all << 16);
    // Roughly: there is room above the largest.
    const float inverse = most > 0 ? __fdividef(kLargest, most) : 0.0f;
    unsigned high[2] = {}, low[2] = {};
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const unsigned number_bits = i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xffff0000u;
      const int number = __float2int_rn(__builtin_bit_cast(float, number_bits) * inverse);
      const int first = (number + 128) >> 8, second = number - first * 256;
      sum += number;
      high[i / 4] |= (static_cast<unsigned>(first) & 255u) << i % 4 * 8;
      low[i / 4] |= (static_cast<unsigned>(second) & 255u) << i % 4 * 8;
    }
    sum += __shfl_xor_sync(kWholeWarp, sum, 1);
    char* const own = x + chunk * kChunk * 2;
    reinterpret_cast<uint2*>(own)[lane] = {high[0], high[1]};
    reinterpret_cast<uint2*>(own + kChunk)[lane] = {low[0], low[1]};
    if (lane % 2 == 0) sums[chunk * kGroups + lane / 2] = sum;
    if (lane == 0)
      scales[chunk] = most < __builtin_huge_valf() ? most * (1.0f / kLargest) : __builtin_nanf("");
  }
  __device__ uint2 words(int chunk, int group, int c, bool low) const {
    return *reinterpret_cast<const uint2*>(x + chunk * kChunk * 2 + low * kChunk + group * 32 +
                                           8 * c);
  }
};

/// `high` and `low` bytes' sums of products as one number.
__device__ inline int whole(int high, int low) { return high * 256 + low; }

// Q8_0: groups of 32 with a scale each.
struct BytesOfQ8_0 {
  using Tile = TileQ8_0;
  __device__ static void multiply(const ByteRow& x, int chunk, const char* const (&rows)[2],
                                  float (&sums)[2]) {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4, c = static_cast<int>(threadIdx.x) % 4;
    const uint2 high = x.words(chunk, g, c, false), low = x.words(chunk, g, c, true);
    float part[2] = {}, scale[2][2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 2; ++i) scale[half][i] = load_half(rows[half] + (2 * c + i) * 34);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      unsigned a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = load_word<2>(rows[i % 2] + j * 34 + 2 + 8 * c + i / 2 * 4);
      int first[4] = {}, second[4] = {};
      multiply_add_bytes(first, a, high.x, high.y);
      multiply_add_bytes(second, a, low.x, low.y);
      if (c == j / 2) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int at = 2 * half + j % 2;
          part[half] = fmaf(static_cast<float>(whole(first[at], second[at])), scale[half][j % 2],
                            part[half]);
        }
      }
    }
    const float factor = x.scales[chunk];
    sums[0] = fmaf(part[0], factor, sums[0]);
    sums[1] = fmaf(part[1], factor, sums[1]);
  }
};

// Q4_K and Q5_K: groups of 32 with whole factors and offsets of six bits.
template <int bytes>
struct BytesOfSixBits {
  using Tile = TileSixBits<bytes>;
  __device__ static void multiply(const ByteRow& x, int chunk, const char* const (&rows)[2],
                                  float (&sums)[2]) {
    constexpr bool five = bytes == 176;
    const int g = static_cast<int>(threadIdx.x) % 32 / 4, c = static_cast<int>(threadIdx.x) % 4;
    const uint2 high = x.words(chunk, g, c, false), low = x.words(chunk, g, c, true);
    const SixBits six[2] = {SixBits(rows[0] + 4, c), SixBits(rows[1] + 4, c)};
    uint2 fifth[2] = {};
    if constexpr (five) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        fifth[half] = *reinterpret_cast<const uint2*>(rows[half] + 16 + 8 * c);
    }
    // Two groups of a thread, times 63, fit into 31 bits.
    int total[2] = {};
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      unsigned a[2][4];  // group 2 s and the next
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto words =
            *reinterpret_cast<const uint2*>(rows[half] + bytes - 128 + s * 32 + 8 * c);
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
        int first[4] = {}, second[4] = {};
        multiply_add_bytes(first, a[i], high.x, high.y);
        multiply_add_bytes(second, a[i], low.x, low.y);
        if (c == s) {
#pragma unroll
          for (int half = 0; half < 2; ++half)
            total[half] += whole(first[2 * half + i], second[2 * half + i]) *
                           static_cast<int>(six[half].scales >> 8 * i & 255);
        }
      }
    }
    const int* const of_groups = x.sums + chunk * ByteRow::kGroups + 4 * c;
    const int of_first = of_groups[0] + of_groups[1], of_second = of_groups[2] + of_groups[3];
    const float factor = x.scales[chunk];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int lows = of_first * static_cast<int>(six[half].lows & 255) +
                       of_second * static_cast<int>(six[half].lows >> 8);
      const float part = load_half(rows[half]) * static_cast<float>(total[half]) -
                         load_half(rows[half] + 2) * static_cast<float>(lows);
      sums[half] = fmaf(part, factor, sums[half]);
    }
  }
};

// Q6_K: groups of 16 with whole factors of eight bits; numbers are 32 too large.
struct BytesOfQ6_K {
  using Tile = TileQ6_K;
  __device__ static void multiply(const ByteRow& x, int chunk, const char* const (&rows)[2],
                                  float (&sums)[2]) {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4, c = static_cast<int>(threadIdx.x) % 4;
    int high_total[2] = {}, low_total[2] = {};
    const char* const own = x.x + chunk * ByteRow::kChunk * 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {  // 128 numbers, eight groups
      // Column n has group 8 h + n: numbers 4 c to 4 c + 3.
      const int at = h * 128 + g * 16 + 4 * c;
      const unsigned high = *reinterpret_cast<const unsigned*>(own + at);
      const unsigned low = *reinterpret_cast<const unsigned*>(own + ByteRow::kChunk + at);
      int factor[2][2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          factor[half][i] =
              *reinterpret_cast<const signed char*>(rows[half] + 192 + 8 * h + 2 * c + i);
#pragma unroll
      for (int t = 0; t < 2; ++t) {  // the first and the second 16 of each 32
        unsigned a[4][2];            // group 8 h + 2 p + t of plane p
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int place = t * 16 + 4 * c;
          const unsigned first = load_word<2>(rows[half] + 64 * h + place);
          const unsigned second = load_word<2>(rows[half] + 64 * h + 32 + place);
          const unsigned top = load_word<2>(rows[half] + 128 + 32 * h + place);
          a[0][half] = (first & 0x0f0f0f0fu) | (top << 4 & 0x30303030u);
          a[1][half] = (second & 0x0f0f0f0fu) | (top << 2 & 0x30303030u);
          a[2][half] = (first >> 4 & 0x0f0f0f0fu) | (top & 0x30303030u);
          a[3][half] = (second >> 4 & 0x0f0f0f0fu) | (top >> 2 & 0x30303030u);
        }
#pragma unroll
        for (int p = 0; p < 4; ++p) {
          int first[4] = {}, second[4] = {};
          multiply_add_bytes(first, a[p][0], a[p][1], high);
          multiply_add_bytes(second, a[p][0], a[p][1], low);
          if (c == p) {  // column 2 p + t
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              high_total[half] += first[2 * half + t] * factor[half][t];
              low_total[half] += second[2 * half + t] * factor[half][t];
            }
          }
        }
      }
      // What the numbers are too large by, in the groups of this thread's columns.
      const int* const of_groups = x.sums + chunk * ByteRow::kGroups + 8 * h + 2 * c;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        low_total[half] -= 32 * (of_groups[0] * factor[half][0] + of_groups[1] * factor[half][1]);
    }
    const float scale = x.scales[chunk];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total =
          fmaf(static_cast<float>(high_total[half]), 256.0f, static_cast<float>(low_total[half]));
      sums[half] = fmaf(total * load_half(rows[half] + 208), scale, sums[half]);
    }
  }
};

// A warp takes 256 numbers at a time, a lane eight of them. Loops that run once or twice are not
// unrolled: see Note [Attention of one step].

/// bfloat16 becomes bytes. All that a warp takes is on its way before the first of it is used.
template <int threads>
__device__ inline void stage_plain(const RowsCall& call, int padded, const ByteRow& row) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(row.x));
  wait_in_front(call);
#pragma unroll 1
  for (int i = warp * 32 + lane; i < padded / 8; i += threads)
    copy_piece(to + static_cast<unsigned>(i * 16), i < call.k / 8 ? call.x + i * 16 : call.x,
               i < call.k / 8 ? 16 : 0);
  close_copies();
  // Each lane reads what it copied itself.
  wait_for_copies<0>();
#pragma unroll 1
  for (int chunk = warp; chunk < padded / ByteRow::kChunk; chunk += threads / 32) {
    const auto words = reinterpret_cast<const uint4*>(row.x)[chunk * 32 + lane];
    __syncwarp();  // all have read
    row.put(chunk, {words.x, words.y, words.z, words.w});
  }
}

/// The eight numbers of a lane.
struct EightFloats {
  float4 low = {}, high = {};
  __device__ void read(const void* from, int first, int count) {
    if (first < count) {
      low = __ldcg(static_cast<const float4*>(from) + first / 4);
      high = __ldcg(static_cast<const float4*>(from) + first / 4 + 1);
    }
  }
  __device__ float squares() const {
    return low.x * low.x + low.y * low.y + (low.z * low.z + low.w * low.w) +
           (high.x * high.x + high.y * high.y + (high.z * high.z + high.w * high.w));
  }
  /// Times factor and w, as pairs of bfloat16.
  __device__ void put(const ByteRow& row, int chunk, const EightFloats& w, float factor) const {
    row.put(chunk, {round_pair<BFloat16>(low.x * factor * w.low.x, low.y * factor * w.low.y),
                    round_pair<BFloat16>(low.z * factor * w.low.z, low.w * factor * w.low.w),
                    round_pair<BFloat16>(high.x * factor * w.high.x, high.y * factor * w.high.y),
                    round_pair<BFloat16>(high.z * factor * w.high.z, high.w * factor * w.high.w)});
  }
};

/// The same for float32 that is still to be normalised. The norm's weight is read before the
/// previous kernel has ended; a warp's chunks after the second are read twice.
template <int threads>
__device__ inline void stage_normalised(const RowsCall& call, int padded, const ByteRow& row) {
  constexpr int kKept = 2, kWarps = threads / 32;
  __shared__ float of_warps[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int chunks = padded / ByteRow::kChunk;
  const auto place = [&](int chunk) { return chunk * ByteRow::kChunk + 8 * lane; };
  EightFloats weight[kKept], x[kKept];
#pragma unroll
  for (int i = 0; i < kKept; ++i) weight[i].read(call.norm, place(warp + i * kWarps), call.k);
  wait_in_front(call);
#pragma unroll
  for (int i = 0; i < kKept; ++i) x[i].read(call.x, place(warp + i * kWarps), call.k);
  float squares = 0;
#pragma unroll
  for (const EightFloats& eight : x) squares += eight.squares();
#pragma unroll 1
  for (int chunk = warp + kKept * kWarps; chunk < chunks; chunk += kWarps) {
    EightFloats more;
    more.read(call.x, place(chunk), call.k);
    squares += more.squares();
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    squares += __shfl_xor_sync(kWholeWarp, squares, distance);
  if (lane == 0) of_warps[warp] = squares;
  wait_for_threads<threads>();
  squares = 0;
#pragma unroll
  for (float part : of_warps) squares += part;
  const float factor = rsqrtf(__fdividef(squares, static_cast<float>(call.k)) + call.eps);
#pragma unroll
  for (int i = 0; i < kKept; ++i)
    if (warp + i * kWarps < chunks) x[i].put(row, warp + i * kWarps, weight[i], factor);
#pragma unroll 1
  for (int chunk = warp + kKept * kWarps; chunk < chunks; chunk += kWarps) {
    EightFloats again, its_weight;
    again.read(call.x, place(chunk), call.k);
    its_weight.read(call.norm, place(chunk), call.k);
    again.put(row, chunk, its_weight, factor);
  }
}

/// Activations and weights as bytes.
template <class Bytes>
struct RowAsBytes {
  using Tile = typename Bytes::Tile;
  using T = BFloat16;
  __host__ __device__ static constexpr int bytes(int padded) { return ByteRow::bytes(padded); }
  template <int threads>
  __device__ static void stage(const RowsCall& call, int padded, char* shared) {
    const ByteRow row(shared, padded);
    call.norm ? stage_normalised<threads>(call, padded, row)
              : stage_plain<threads>(call, padded, row);
  }
  __device__ static void multiply(const char* x, int padded, int chunk,
                                  const char* const (&rows)[2], const unsigned*, float (&sums)[2]) {
    Bytes::multiply(ByteRow(const_cast<char*>(x), padded), chunk, rows, sums);
  }
};

/// How a row is multiplied by a format's tiles.
template <class Tile, class T>
struct OneRowOf {
  using type = RowAsFloats<typename OneRowTile<Tile>::type, T>;
};
template <>
struct OneRowOf<TileQ8_0, BFloat16> {
  using type = RowAsBytes<BytesOfQ8_0>;
};
template <int bytes>
struct OneRowOf<TileSixBits<bytes>, BFloat16> {
  using type = RowAsBytes<BytesOfSixBits<bytes>>;
};
template <>
struct OneRowOf<TileQ6_K, BFloat16> {
  using type = RowAsBytes<BytesOfQ6_K>;
};

}  // namespace tensora::cuda

#pragma once

// Internal header, for sources called *_sm90a.cu
// Groups of weights as 16-bit operands with their scales, and their products.

#include "tensora/ops/attention/hopper.cuh"
#include "tensora/ops/quant/quant_row_parts.cuh"

namespace tensora::cuda {

/// d (64 x 64) += a (64 x 16, in registers) @ b^T (b: 64 x 16, k along its rows).
template <class T>
__device__ inline void add_columns(float (&d)[32], const unsigned (&a)[4], uint64_t b) {
  if constexpr (is_bfloat16_type<T>)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/// Two neighbours of a weight row as an operand.
template <class Tile>
__device__ inline unsigned unpacked_pair(const unsigned (&terms)[Tile::kTerms], float scale,
                                         float low) {
  if constexpr (!Tile::kScaled && Tile::kCentred) {
    return terms[0];
  } else {
    float first = __uint_as_float(terms[0] << 16);
    float second = __uint_as_float(terms[0] & 0xffff0000u);
    if constexpr (Tile::kTerms == 2) {
      first += __uint_as_float(terms[1] << 16);
      second += __uint_as_float(terms[1] & 0xffff0000u);
    }
    if constexpr (Tile::kCentred)
      return round_pair<BFloat16>(first * scale, second * scale);
    else
      return round_pair<BFloat16>(fmaf(first, scale, -low), fmaf(second, scale, -low));
  }
}

/// The factors of a thread's two weight rows: of two groups each, which other lanes need, too.
template <class Tile>
struct RowFactors {
  Factors rows[2] = {};

  __device__ void load(const char* const (&from)[2], int pair) {
    if constexpr (Tile::kScaled) {
      rows[0] = Tile::factors(from[0], pair);
      rows[1] = Tile::factors(from[1], pair);
    }
  }
  /// Those of group j, from the lane that has them.
  __device__ void get(int row, int j, float& scale, float& low) const {
    scale = 1, low = 0;
    if constexpr (Tile::kScaled) {
      const unsigned owner = (threadIdx.x % 32 & ~3u) | static_cast<unsigned>(j % 8 / 2);
      scale = __shfl_sync(kWholeWarp, rows[row].scale[j % 2], owner);
      if constexpr (!Tile::kCentred) low = __shfl_sync(kWholeWarp, rows[row].low[j % 2], owner);
    } else if constexpr (!Tile::kCentred) {
      low = Tile::kOffset;
    }
  }
};

/// Products of 16 numbers in a group.
template <class Tile>
inline constexpr int kGroupProducts = RowsShape<Tile>::kWords / 2;

/// Group j of 16 weight rows of a warp as operands.
template <class Tile, int words>
__device__ inline void unpack_group(const unsigned (&first)[Tile::kTerms][words],
                                    const unsigned (&second)[Tile::kTerms][words],
                                    const RowFactors<Tile>& factors, int j,
                                    unsigned (&a)[kGroupProducts<Tile>][4]) {
  float scale[2], low[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) factors.get(row, j, scale[row], low[row]);
#pragma unroll
  for (int w = 0; w < words; ++w) {
    unsigned terms[2][Tile::kTerms];
#pragma unroll
    for (int t = 0; t < Tile::kTerms; ++t) terms[0][t] = first[t][w], terms[1][t] = second[t][w];
#pragma unroll
    for (int row = 0; row < 2; ++row)
      a[w / 2][w % 2 * 2 + row] = unpacked_pair<Tile>(terms[row], scale[row], low[row]);
  }
}

}  // namespace tensora::cuda

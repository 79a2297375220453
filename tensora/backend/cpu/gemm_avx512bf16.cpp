// Products of bfloat16 by the instruction that multiplies pairs: out += a[k] * b[k] + a[k + 1] *
// b[k + 1], 16 sums at once, exact products summed in float. Compiled for processors with AVX-512
// and its BF16 extension; all other kernels are those of AVX-512.

#include <immintrin.h>

#include "tensora/backend/cpu/gemm_pairs.h"

namespace tensora::cpu::TENSORA_ISA {

namespace {

using Panel = Tile<float>;
constexpr int64_t kDepth = 2 * Panel::kDepth;

[[gnu::always_inline]] inline Vector<float> add_pairs(Vector<float> sum, Vector<Word> a,
                                                      Vector<Word> b) {
  return (Vector<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

// ---- blocks ----

void pack_b(MatrixView<const BFloat16> b, int64_t k, int64_t n, float* packed) {
  for (int64_t col = 0, count = 0; col < n; col += count) {
    count = panel_columns<float>(n - col);
    pack_pairs(b.at(0, col), b.col_stride, b.row_stride, count, k, padded<float>(count),
               reinterpret_cast<Word*>(packed + col * k));
  }
}

/// a is a panel of MR rows, b one of NV vectors.
template <int MR, int NV>
void tile_of_pairs(int64_t words, const Word* a, const Word* b, const TileOut<float>& out) {
  Vector<float> sums[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) sums[i][j] = Vector<float>{};
  }
  for (int64_t word = 0; word < words; ++word, a += MR, b += NV * W) {
    Vector<Word> bv[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) bv[j] = load<Vector<Word>>(b + j * W);
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const Vector<Word> x = a[i] - Vector<Word>{};  // in all lanes
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) sums[i][j] = add_pairs(sums[i][j], x, bv[j]);
    }
  }
  write_tile<float, MR, NV>(sums, out);
}

using PairsFunction = void (*)(int64_t, const Word*, const Word*, const TileOut<float>&);

struct PairsTable {
  PairsFunction at[Panel::kRows][Panel::kVectors];

  template <int Index = 0>
  constexpr void fill() {
    if constexpr (Index < Panel::kRows * Panel::kVectors) {
      constexpr int kRow = Index / Panel::kVectors, kVector = Index % Panel::kVectors;
      at[kRow][kVector] = tile_of_pairs<kRow + 1, kVector + 1>;
      fill<Index + 1>();
    }
  }
  constexpr PairsTable() : at{} { fill(); }
};
constexpr PairsTable kPairs;

void multiply(const BlockProduct<BFloat16>& product) {
  constexpr int64_t kGroup = Panel::kGroup * Panel::kWidth;
  const int64_t k = product.k, words = (k + 1) / 2;
  Word* const packed_a = reinterpret_cast<Word*>(product.scratch);
  // Panels of equal height, so that no small remainder is left.
  const int64_t panels = (product.m + Panel::kRows - 1) / Panel::kRows;
  const int64_t height = (product.m + panels - 1) / panels;
  const int64_t rows_at_once = Panel::kRowsInCache / Panel::kRows * height;
  for (int64_t row = 0; row < product.m; row += rows_at_once) {
    const int64_t row_end = min_of(row + rows_at_once, product.m);
    for (int64_t i = row; i < row_end; i += height) {
      const int64_t rows = min_of(height, row_end - i);
      pack_pairs(product.a.at(i, 0), product.a.row_stride, product.a.col_stride, rows, k, rows,
                 packed_a + (i - row) * words);
    }
    for (int64_t group = 0, group_end = 0; group < product.n; group = group_end) {
      // The narrowed panels at the end stay with the group before them.
      group_end = product.n - group < kGroup + Panel::kWidth ? product.n : group + kGroup;
      for (int64_t i = row; i < row_end; i += height) {
        const int64_t rows = min_of(height, row_end - i);
        for (int64_t col = group, columns = 0; col < group_end; col += columns) {
          columns = panel_columns<float>(product.n - col);
          const TileOut<float> out = {product.out + i * product.out_row_stride + col,
                                      product.out_row_stride, columns, product.alpha, product.beta};
          kPairs.at[rows - 1][padded<float>(columns) / W - 1](
              words, packed_a + (i - row) * words,
              reinterpret_cast<const Word*>(product.b_packed + col * k), out);
        }
      }
    }
  }
}

// ---- few rows ----

/// Rows of a as they are, one after another; row i begins at 2 * i * k, so that a row of floats
/// would fit.
void gather(MatrixView<const BFloat16> a, int64_t m, int64_t k, float* dense) {
  for (int64_t i = 0; i < m; ++i) {
    auto* const row = reinterpret_cast<BFloat16*>(dense + i * k);
    if (a.col_stride == 1)
      __builtin_memcpy(row, a.at(i, 0), static_cast<size_t>(k) * sizeof(BFloat16));
    else
      for (int64_t depth = 0; depth < k; ++depth) row[depth] = *a.at(i, depth);
  }
}

const BFloat16* row_of(const SkinnyProduct<BFloat16>& product, int64_t i) {
  return reinterpret_cast<const BFloat16*>(product.a + i * product.k);
}

/// Up to 32 elements, the rest zero.
[[gnu::always_inline]] inline Vector<Word> load_some(const BFloat16* from, int64_t count) {
  const auto mask = static_cast<__mmask32>((uint64_t{1} << count) - 1);
  return (Vector<Word>)_mm512_maskz_loadu_epi16(mask, from);
}

/// Dot products of `Rows` rows of a with `Columns` columns of b.
template <int Rows, int Columns>
void dots(const SkinnyProduct<BFloat16>& product, int64_t row, int64_t col) {
  const int64_t k = product.k, b_stride = product.b.col_stride;
  const BFloat16* const b = product.b.at(0, col);
  Vector<float> sums[Rows][Columns];
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) sums[i][j] = Vector<float>{};
  }
  for (int64_t depth = 0; depth < k; depth += 2 * W) {
    const int64_t count = min_of<int64_t>(2 * W, k - depth);
    Vector<Word> bv[Columns];
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j) bv[j] = load_some(b + j * b_stride + depth, count);
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) {
      const Vector<Word> x = load_some(row_of(product, row + i) + depth, count);
#pragma GCC unroll 4
      for (int j = 0; j < Columns; ++j) sums[i][j] = add_pairs(sums[i][j], x, bv[j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Columns; ++j)
      product.sums[(row + i) * product.n + col + j] = sum_lanes<float, W>(sums[i][j]);
  }
}

template <int Columns>
void dots_of_all_rows(const SkinnyProduct<BFloat16>& product, int64_t col) {
  int64_t row = 0;
  for (; row + 4 <= product.m; row += 4) dots<4, Columns>(product, row, col);
  for (; row < product.m; ++row) dots<1, Columns>(product, row, col);
}

void along_columns(const SkinnyProduct<BFloat16>& product) {
  int64_t col = 0;
  for (; col + 4 <= product.n; col += 4) dots_of_all_rows<4>(product, col);
  for (; col < product.n; ++col) dots_of_all_rows<1>(product, col);
}

constexpr int kGroup = 2 * W;           // columns that one load of b brings
constexpr int kDepths = 4;              // rows of b taken at once
constexpr int kMostRows = 8;            // of a
constexpr int64_t kSumsAtOnce = 16384;  // see gemm_skinny_isa.cpp

/// sums += a[., depth...] * b[depth..., col...] for `columns` columns, up to kGroup, and `depths`
/// steps, up to kDepths. The sums of a group lie as unpacking leaves them: four columns in each
/// quarter of the first vector, the next four in that of the second.
[[gnu::always_inline]] inline void add_rows(const SkinnyProduct<BFloat16>& product, int64_t depth,
                                            int64_t depths, int64_t col, int64_t columns,
                                            float* sums, int64_t sums_stride) {
  __m512i rows[kDepths];
#pragma GCC unroll 4
  for (int d = 0; d < kDepths; ++d) {
    const BFloat16* const from = product.b.at(depth + min_of<int64_t>(d, depths - 1), col);
    rows[d] = d < depths ? (__m512i)load_some(from, columns) : (__m512i)Vector<Word>{};
    // Each row is on a page of its own, across which the processor does not prefetch.
    __builtin_prefetch(from +
                       (depth + 2 * kDepths <= product.k ? kDepths * product.b.row_stride : 0));
  }
  Vector<Word> pairs[kDepths / 2][2];
#pragma GCC unroll 2
  for (int d = 0; d < kDepths / 2; ++d) {
    pairs[d][0] = (Vector<Word>)_mm512_unpacklo_epi16(rows[2 * d], rows[2 * d + 1]);
    pairs[d][1] = (Vector<Word>)_mm512_unpackhi_epi16(rows[2 * d], rows[2 * d + 1]);
  }
  for (int64_t i = 0; i < product.m; ++i) {
    const BFloat16* const a = row_of(product, i) + depth;
    float* const to = sums + i * sums_stride;
    Vector<float> sum[2] = {load<Vector<float>>(to), load<Vector<float>>(to + W)};
#pragma GCC unroll 2
    for (int d = 0; d < kDepths / 2; ++d) {
      if (2 * d >= depths) break;
      const Word word = word_of<BFloat16>(a + 2 * d, 2 * d + 1 < depths ? a + 2 * d + 1 : nullptr);
      const Vector<Word> x = word - Vector<Word>{};
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) sum[j] = add_pairs(sum[j], x, pairs[d][j]);
    }
    store(to, sum[0]);
    store(to + W, sum[1]);
  }
}

/// Brings the sums of a group into the order of the columns.
void put_in_order(const float* sums, int64_t columns, float* out) {
  float ordered[kGroup];
  for (int quarter = 0; quarter < W / 4; ++quarter)
    for (int j = 0; j < 4; ++j) {
      ordered[8 * quarter + j] = sums[4 * quarter + j];
      ordered[8 * quarter + 4 + j] = sums[W + 4 * quarter + j];
    }
  __builtin_memcpy(out, ordered, static_cast<size_t>(columns) * sizeof(float));
}

void along_rows(const SkinnyProduct<BFloat16>& product) {
  alignas(64) float memory[kSumsAtOnce + kMostRows * W];
  const int64_t span = kSumsAtOnce / product.m / kGroup * kGroup, stride = span + W;
  for (int64_t begin = 0; begin < product.n; begin += span) {
    const int64_t width = min_of(span, product.n - begin);
    for (int64_t i = 0; i < product.m * stride; ++i) memory[i] = 0;
    for (int64_t depth = 0; depth < product.k; depth += kDepths) {
      const int64_t depths = min_of<int64_t>(kDepths, product.k - depth);
      int64_t col = 0;
      if (depths == kDepths)
        for (; col + kGroup <= width; col += kGroup)
          add_rows(product, depth, kDepths, begin + col, kGroup, memory + col, stride);
      for (; col < width; col += kGroup)
        add_rows(product, depth, depths, begin + col, min_of<int64_t>(kGroup, width - col),
                 memory + col, stride);
    }
    for (int64_t i = 0; i < product.m; ++i)
      for (int64_t col = 0; col < width; col += kGroup)
        put_in_order(memory + i * stride + col, min_of<int64_t>(kGroup, width - col),
                     product.sums + i * product.n + begin + col);
  }
}

}  // namespace

BlockKernels<BFloat16> block_kernels(BlockKernels<BFloat16> kernels) {
  kernels.k_block = kDepth;
  kernels.scratch = Panel::kRowsInCache * kDepth;
  kernels.pack_b = pack_b;
  kernels.multiply = multiply;
  return kernels;
}

SkinnyKernels<BFloat16> skinny_kernels() {
  return {.gather = gather, .along_rows = along_rows, .along_columns = along_columns};
}

}  // namespace tensora::cpu::TENSORA_ISA

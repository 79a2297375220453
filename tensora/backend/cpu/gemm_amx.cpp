// Products of bfloat16 by the tile registers of AMX: one instruction adds the product of 16 rows of
// a and 16 columns of b over 32 steps of k, in float. Compiled for processors with AVX-512 and AMX.
//
// Note [Four tiles of sums]
// There are eight tile registers: four hold the sums of 32 rows by 32 columns, two a part of a, two
// a part of b. Four loads then serve four products, which take twice as long as the loads. The
// rows of a, packed tile after tile, stay in the L1 cache while the panels of b go by.

#include "tensora/backend/cpu/gemm_pairs.h"

namespace tensora::cpu::TENSORA_ISA {

namespace {

constexpr int64_t kSide = 16;            // rows and columns of a tile of sums
constexpr int64_t kSteps = 32;           // of k, of one instruction
constexpr int64_t kPanel = 2 * kSide;    // rows, and columns, whose sums are in the registers
constexpr int64_t kDepth = 512;          // of k at once
constexpr int64_t kRowsInCache = 256;    // of a, packed at once
constexpr int64_t kGroup = 16 * kPanel;  // columns of b that stay in the L2 cache
constexpr int64_t kTileElements = kSide * kSteps;
// A panel of fewer steps of k has no room for a whole tile.
constexpr int64_t kLeast = 16;

int64_t padded_words(int64_t k) { return (k + kSteps - 1) / kSteps * (kSteps / 2); }

int64_t panels(int64_t n) { return (n + kPanel - 1) / kPanel; }

/// As panels of 32 columns, [words][width], with zeros where k does not fill a tile.
void pack_b(MatrixView<const BFloat16> b, int64_t k, int64_t n, float* packed) {
  for (int64_t col = 0; col < n; col += kPanel) {
    const int64_t count = min_of(kPanel, n - col), width = padded<float>(count);
    auto* const panel = reinterpret_cast<Word*>(packed + col * k);
    pack_pairs(b.at(0, col), b.col_stride, b.row_stride, count, k, width, panel);
    if (k < kLeast) continue;
    for (int64_t i = (k + 1) / 2 * width; i < padded_words(k) * width; ++i) panel[i] = 0;
  }
}

/// Up to 16 rows as tiles, one after another along k; zeros where there is no element.
void pack_a(MatrixView<const BFloat16> a, int64_t rows, int64_t k, BFloat16* packed) {
  for (int64_t depth = 0; depth < k; depth += kSteps, packed += kTileElements) {
    const int64_t steps = min_of(kSteps, k - depth);
    if (rows < kSide || steps < kSteps)
      __builtin_memset(packed, 0, kTileElements * sizeof(BFloat16));
    if (a.col_stride == 1) {
      for (int64_t i = 0; i < rows; ++i)
        __builtin_memcpy(packed + i * kSteps, a.at(i, depth),
                         static_cast<size_t>(steps) * sizeof(BFloat16));
    } else {
      for (int64_t d = 0; d < steps; ++d)
        for (int64_t i = 0; i < rows; ++i) packed[i * kSteps + d] = *a.at(i, depth + d);
    }
  }
}

/// All eight registers as 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  unsigned char palette = 1, start_row = 0, reserved[14] = {};
  unsigned short bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  unsigned char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// The sums of MR x NV tiles, as rows of 2 * kSide floats.
template <int MR, int NV>
void tile_sums(int64_t words, const BFloat16* a, int64_t a_panel, const Word* b, float* sums) {
  _tile_zero(0);
  if constexpr (NV == 2) _tile_zero(1);
  if constexpr (MR == 2) _tile_zero(2);
  if constexpr (MR == 2 && NV == 2) _tile_zero(3);
  constexpr int64_t kWidth = NV * kSide;
  for (int64_t word = 0; word < words; word += kSteps / 2, a += kTileElements) {
    _tile_loadd(6, b + word * kWidth, kWidth * static_cast<int64_t>(sizeof(Word)));
    _tile_loadd(4, a, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (MR == 2) {
      _tile_loadd(5, a + a_panel, 64);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (NV == 2) {
      _tile_loadd(7, b + word * kWidth + kSide, kWidth * static_cast<int64_t>(sizeof(Word)));
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (MR == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  constexpr int64_t kRow = 2 * kSide * sizeof(float);
  _tile_stored(0, sums, kRow);
  if constexpr (NV == 2) _tile_stored(1, sums + kSide, kRow);
  if constexpr (MR == 2) _tile_stored(2, sums + 2 * kSide * kSide, kRow);
  if constexpr (MR == 2 && NV == 2) _tile_stored(3, sums + 2 * kSide * kSide + kSide, kRow);
}

/// Rows `row`... of out, up to kPanel of them, with the panel of b at `col`.
void multiply_panel(const BlockProduct<BFloat16>& product, const BFloat16* a, int64_t row,
                    int64_t rows, int64_t col) {
  const int64_t columns = min_of(kPanel, product.n - col), words = padded_words(product.k);
  const int64_t a_panel = 2 * words * kSide;
  const auto* b = reinterpret_cast<const Word*>(product.b_packed + col * product.k);
  Word whole[kSteps / 2 * kPanel];
  if (product.k < kLeast) {
    const int64_t used = (product.k + 1) / 2 * padded<float>(columns);
    __builtin_memset(whole, 0, sizeof whole);
    __builtin_memcpy(whole, b, static_cast<size_t>(used) * sizeof(Word));
    b = whole;
  }
  alignas(64) float sums[kPanel * kPanel];
  if (rows > kSide)
    columns > kSide ? tile_sums<2, 2>(words, a, a_panel, b, sums)
                    : tile_sums<2, 1>(words, a, a_panel, b, sums);
  else
    columns > kSide ? tile_sums<1, 2>(words, a, a_panel, b, sums)
                    : tile_sums<1, 1>(words, a, a_panel, b, sums);
  for (int64_t i = 0; i < rows; ++i)
    blend_row(sums + i * kPanel, product.out + (row + i) * product.out_row_stride + col, columns,
              product.alpha, product.beta);
}

void multiply(const BlockProduct<BFloat16>& product) {
  auto* const packed_a = reinterpret_cast<BFloat16*>(product.scratch);
  const int64_t row_elements = 2 * padded_words(product.k);  // of a packed row
  for (int64_t i = 0; i < product.m; i += kSide)
    pack_a({product.a.at(i, 0), product.a.row_stride, product.a.col_stride},
           min_of(kSide, product.m - i), product.k, packed_a + i * row_elements);
  const TileConfig config;
  _tile_loadconfig(&config);
  for (int64_t group = 0; group < product.n; group += kGroup)
    for (int64_t i = 0; i < product.m; i += kPanel)
      for (int64_t col = group; col < min_of(group + kGroup, product.n); col += kPanel)
        multiply_panel(product, packed_a + i * row_elements, i, min_of(kPanel, product.m - i), col);
  _tile_release();
}

}  // namespace

BlockKernels<BFloat16> block_kernels(BlockKernels<BFloat16> kernels) {
  kernels.panel_width = kPanel;
  kernels.panel_height = kPanel;
  kernels.row_block = kRowsInCache;
  kernels.column_multiple = kPanel;
  kernels.k_block = kDepth;
  kernels.k_multiple = kSteps;
  kernels.scratch = kRowsInCache * kDepth;
  kernels.panels = panels;
  kernels.pack_b = pack_b;
  kernels.multiply = multiply;
  return kernels;
}

}  // namespace tensora::cpu::TENSORA_ISA

// Products of bfloat16 by the tile registers of AMX: one instruction adds the product of 16 rows of
// a and 16 columns of b over 32 steps of k, in float. Compiled for processors with AVX-512 and AMX.
//
// Note [Four tiles of sums]
// There are eight tile registers: four hold the sums of 32 rows by 32 columns, two a part of a, two
// a part of b. Four loads then serve four products, which take twice as long as the loads. The
// rows of a, packed tile after tile, stay in the L1 cache while the panels of b go by; where all of
// a fits there, a panel of b stays with it while the rows go by.

#include "tensora/backend/cpu/gemm_pairs.h"

namespace tensora::cpu::TENSORA_ISA {

namespace {

constexpr int64_t kSide = 16;            // rows and columns of a tile of sums
constexpr int64_t kSteps = 32;           // of k, of one instruction
constexpr int64_t kPanel = 2 * kSide;    // rows, and columns, whose sums are in the registers
constexpr int64_t kDepth = 512;          // of k at once
constexpr int64_t kRowsInCache = 256;    // of a, packed at once
constexpr int64_t kGroup = 16 * kPanel;  // columns of b that stay in the L2 cache
constexpr int64_t kElementsInCache = 96 * 128;  // of a, in the L1 cache with a panel of b
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

/// A tile of rows that are columns in memory: pairs of steps side by side, then turned.
void turn_tile(const BFloat16* a, int64_t step_stride, int64_t steps, BFloat16* tile) {
  Word pairs[kSteps / 2 * kSide];
  pack_pairs(a, 1, step_stride, kSide, steps, kSide, pairs);
  for (int64_t i = (steps + 1) / 2 * kSide; i < kSteps / 2 * kSide; ++i) pairs[i] = 0;
  const Word* lines[kSide + 3];
  for (int64_t i = 0; i < kSide + 3; ++i) lines[i] = pairs + min_of(i, kSide - 1) * kSide;
  pack_lines<Word>(lines, kSide, kSide, reinterpret_cast<Word*>(tile));
}

/// Up to 16 rows as tiles, one after another along k; zeros where there is no element.
void pack_a(MatrixView<const BFloat16> a, int64_t rows, int64_t k, BFloat16* packed) {
  for (int64_t depth = 0; depth < k; depth += kSteps, packed += kTileElements) {
    const int64_t steps = min_of(kSteps, k - depth);
    if (a.row_stride == 1 && rows == kSide) {
      turn_tile(a.at(0, depth), a.col_stride, steps, packed);
      continue;
    }
    if (rows < kSide || steps < kSteps)
      __builtin_memset(packed, 0, kTileElements * sizeof(BFloat16));
    if (a.col_stride == 1 && steps == kSteps) {
      for (int64_t i = 0; i < rows; ++i)
        store(packed + i * kSteps, load<VectorN<uint16_t, kSteps>>(a.at(i, depth)));
    } else if (a.col_stride == 1) {
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

/// Rows of a as tiles: packed, or in place. Distances in elements.
struct TilesOfA {
  const BFloat16* data;
  int64_t row_stride;  // within a tile
  int64_t tile_rows;   // to the tile with the next 16 rows
  int64_t tile_steps;  // to the tile with the next 32 steps of k
};

/// The sums of MR x NV tiles, as rows of 2 * kSide floats.
template <int MR, int NV>
void tile_sums(int64_t words, TilesOfA a, const Word* b, float* sums) {
  asm volatile("" ::: "memory");  // the compiler does not know that tiles are loaded from memory
  _tile_zero(0);
  if constexpr (NV == 2) _tile_zero(1);
  if constexpr (MR == 2) _tile_zero(2);
  if constexpr (MR == 2 && NV == 2) _tile_zero(3);
  constexpr int64_t kWidth = NV * kSide;
  const int64_t a_row = a.row_stride * static_cast<int64_t>(sizeof(BFloat16));
  for (int64_t word = 0; word < words; word += kSteps / 2, a.data += a.tile_steps) {
    _tile_loadd(6, b + word * kWidth, kWidth * static_cast<int64_t>(sizeof(Word)));
    _tile_loadd(4, a.data, a_row);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (MR == 2) {
      _tile_loadd(5, a.data + a.tile_rows, a_row);
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
void multiply_panel(const BlockProduct<BFloat16>& product, TilesOfA a, int64_t row, int64_t col) {
  const int64_t rows = min_of(kPanel, product.m - row), columns = min_of(kPanel, product.n - col);
  const int64_t words = padded_words(product.k);
  a.data += row / kSide * a.tile_rows;
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
    columns > kSide ? tile_sums<2, 2>(words, a, b, sums) : tile_sums<2, 1>(words, a, b, sums);
  else
    columns > kSide ? tile_sums<1, 2>(words, a, b, sums) : tile_sums<1, 1>(words, a, b, sums);
  for (int64_t i = 0; i < rows; ++i) {
    float* const out = product.out + (row + i) * product.out_row_stride + col;
    // The whole panel again, as a number that the compiler knows.
    if (columns == kPanel)
      blend_row(sums + i * kPanel, out, kPanel, product.alpha, product.beta);
    else
      blend_row(sums + i * kPanel, out, columns, product.alpha, product.beta);
  }
}

/// Whether a consists of whole tiles whose rows do not evict each other from the cache.
bool reads_a_in_place(const BlockProduct<BFloat16>& product) {
  const int64_t row_bytes = product.a.row_stride * static_cast<int64_t>(sizeof(BFloat16));
  return product.a.col_stride == 1 && product.m % kSide == 0 && product.k % kSteps == 0 &&
         row_bytes % 1024 != 0 && product.m * product.k <= kElementsInCache;
}

TilesOfA tiles_of_a(const BlockProduct<BFloat16>& product) {
  if (reads_a_in_place(product))
    return {product.a.data, product.a.row_stride, kSide * product.a.row_stride, kSteps};
  auto* const packed = reinterpret_cast<BFloat16*>(product.scratch);
  const int64_t row_elements = 2 * padded_words(product.k);  // of a packed row
  for (int64_t i = 0; i < product.m; i += kSide)
    pack_a({product.a.at(i, 0), product.a.row_stride, product.a.col_stride},
           min_of(kSide, product.m - i), product.k, packed + i * row_elements);
  return {packed, kSteps, kSide * row_elements, kTileElements};
}

/// No more rows than are packed at once.
void multiply_rows(const BlockProduct<BFloat16>& product) {
  const TilesOfA a = tiles_of_a(product);
  if (product.m * product.k <= kElementsInCache) {
    for (int64_t col = 0; col < product.n; col += kPanel)
      for (int64_t i = 0; i < product.m; i += kPanel) multiply_panel(product, a, i, col);
  } else {
    for (int64_t group = 0; group < product.n; group += kGroup)
      for (int64_t i = 0; i < product.m; i += kPanel)
        for (int64_t col = group; col < min_of(group + kGroup, product.n); col += kPanel)
          multiply_panel(product, a, i, col);
  }
}

void multiply(const BlockProduct<BFloat16>& product) {
  const TileConfig config;
  _tile_loadconfig(&config);
  BlockProduct<BFloat16> part = product;
  for (int64_t row = 0; row < product.m; row += kRowsInCache) {
    part.m = min_of(kRowsInCache, product.m - row);
    part.a.data = product.a.at(row, 0);
    part.out = product.out + row * product.out_row_stride;
    multiply_rows(part);
  }
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

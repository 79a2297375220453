// The blocked matrix product: packing and the register tile. Compiled once per instruction set.
//
// Note [Register tile]
// A tile of MR rows by NV vectors of out stays in registers while k runs; each step loads NV
// vectors of b and multiplies them with MR broadcast elements of a. 24 sums (AVX-512) or 12 (else)
// hide the latency of two FMA units and leave registers for the operands. With AVX-512 a panel of a
// stays in the L1 cache and panels of b come from the L2 cache, else a panel of b stays there.

#include "tensora/backend/cpu/gemm_tile.h"

namespace tensora::cpu::TENSORA_ISA {

namespace {

constexpr int64_t kRowsAhead = 12;
constexpr int64_t kStepsAhead = 12;  // of k, where columns of a are packed

/// By reference: as an argument on the stack it would be copied by loads wider than the stores that
/// have just written it, and such a load waits until all the sums of the tile before are stored.
template <class C>
struct TileOperands {
  int64_t k;
  MatrixView<const C> a;
  const C* b;
  int64_t b_stride;
};

/// Packed: a is a panel [k][MR], otherwise it is read in place with strides.
template <class C, int MR, int NV, bool Packed>
void tile_product(const TileOperands<C>& operands, const TileOut<C>& out) {
  using V = Vector<C>;
  constexpr int W = kLanes<C>;
  V sums[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) sums[i][j] = V{};
  }
  const C* p = operands.a.data;
  const C* b = operands.b;
  const int64_t b_stride = operands.b_stride;
  const int64_t rows = Packed ? 1 : operands.a.row_stride;
  const int64_t step = Packed ? MR : operands.a.col_stride;
  const auto add_step = [&]() __attribute__((always_inline)) {
    V bv[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) bv[j] = load<V>(b + j * W);
    if constexpr (!Packed) {
      // Rows of b in place are on different pages, across which the processor does not prefetch.
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) __builtin_prefetch(b + kRowsAhead * b_stride + j * W, 0, 3);
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const C x = p[i * rows];
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) sums[i][j] += x * bv[j];
    }
    p += step;
    b += b_stride;
  };
  // The rows of out one by one, between steps: asked for all at once they would take every buffer
  // for missing cache lines, and the operands would wait.
  const int64_t fetched = min_of<int64_t>(operands.k, MR);
  for (int64_t i = 0; i < fetched; ++i) {
    const char* row = reinterpret_cast<const char*>(out.data + i * out.row_stride);
#pragma GCC unroll 4
    for (int j = 0; j < NV * kVectorBytes; j += 64) __builtin_prefetch(row + j, 1, 3);
    add_step();
  }
  for (int64_t depth = fetched; depth < operands.k; ++depth) {
    if constexpr (!Packed) {
      // And a line of each of the rows of a that the tile below will read: runs of a step of k are
      // too short for the processor to prefetch.
      if (depth % int64_t{64 / sizeof(C)} == 0) {
#pragma GCC unroll 16
        for (int i = MR; i < 2 * MR; ++i) __builtin_prefetch(p + i * rows, 0, 3);
      }
    }
    add_step();
  }
  write_tile<C, MR, NV>(sums, out);
}

template <class C>
using TileFunction = void (*)(const TileOperands<C>&, const TileOut<C>&);

template <class C, bool Packed>
struct TileTable {
  TileFunction<C> at[Tile<C>::kRows][Tile<C>::kVectors];

  template <int Index = 0>
  constexpr void fill() {
    constexpr int kCount = Tile<C>::kRows * Tile<C>::kVectors;
    if constexpr (Index < kCount) {
      constexpr int kRow = Index / Tile<C>::kVectors;
      constexpr int kVector = Index % Tile<C>::kVectors;
      at[kRow][kVector] = tile_product<C, kRow + 1, kVector + 1, Packed>;
      fill<Index + 1>();
    }
  }
  constexpr TileTable() : at{} { fill(); }
};

template <class C, bool Packed>
constexpr TileTable<C, Packed> kTiles;

/// Packs `count` lines, each contiguous along k. Missing lines repeat the last one: their part of
/// the product is discarded.
template <class C, class T>
void pack_contiguous(const T* src, int64_t line_stride, int64_t count, int64_t k, int64_t width,
                     C* dst) {
  // A panel of a is as high as a tile, which with short vectors is more than the tile is wide.
  constexpr int kMost = Tile<C>::kWidth > Tile<C>::kRows ? Tile<C>::kWidth : Tile<C>::kRows;
  const T* lines[kMost + 3];
  for (int64_t i = 0; i < width + 3; ++i) lines[i] = src + min_of(i, count - 1) * line_stride;
  pack_lines<C>(lines, k, width, dst);
}

/// The same when adjacent lines are contiguous: copies.
template <class C, class T>
[[gnu::always_inline]] inline void pack_step(const T* src, int64_t count, int64_t width, C* dst) {
  constexpr int W = kLanes<C>;
  constexpr int kHalf = W / 2;
  int64_t i = 0;
  for (; i + W <= count; i += W) store(dst + i, load_wide<C, W>(src + i));
  for (; i + kHalf <= count; i += kHalf) store(dst + i, load_wide<C, kHalf>(src + i));
  for (; i < count; ++i) dst[i] = widen<C>(src[i]);
  for (; i < width; ++i) dst[i] = C{0};
}

template <class C, class T>
void pack_strided(const T* src, int64_t line_stride, int64_t k_stride, int64_t count, int64_t k,
                  int64_t width, C* dst) {
  for (int64_t depth = 0; depth < k; ++depth) {
    for (int64_t i = 0; i < width; ++i) {
      dst[depth * width + i] = i < count ? widen<C>(src[i * line_stride + depth * k_stride]) : C{0};
    }
  }
}

/// Rows of a as panels of `height` rows, one after the other.
template <class T>
void pack_a(MatrixView<const T> a, int64_t rows, int64_t height, int64_t k,
            gemm_compute_t<T>* dst) {
  using C = gemm_compute_t<T>;
  if (a.row_stride == 1 && a.col_stride != 1) {
    // Step by step of k, so that memory is read in order. Runs are too short to be prefetched by
    // the processor.
    for (int64_t depth = 0; depth < k; ++depth) {
      for (int64_t i = 0; i < rows; i += height) {
        const int64_t count = min_of(height, rows - i);
        __builtin_prefetch(a.at(i, depth + kStepsAhead), 0, 3);
        pack_step<C>(a.at(i, depth), count, count, dst + i * k + depth * count);
      }
    }
    return;
  }
  for (int64_t i = 0; i < rows; i += height) {
    const int64_t count = min_of(height, rows - i);
    if (a.col_stride == 1) {
      pack_contiguous<C>(a.at(i, 0), a.row_stride, count, k, count, dst + i * k);
    } else {
      pack_strided<C>(a.at(i, 0), a.row_stride, a.col_stride, count, k, count, dst + i * k);
    }
  }
}

template <class C>
int64_t panels(int64_t n) {
  constexpr int64_t kWidth = Tile<C>::kWidth;
  const int64_t whole = n / kWidth;
  const bool evened = Tile<C>::kVectors > 2 && padded<C>(n - whole * kWidth) == kLanes<C>;
  return n % kWidth == 0 || (evened && whole > 0) ? whole : whole + 1;
}

template <class T>
void pack_b(MatrixView<const T> b, int64_t k, int64_t n, gemm_compute_t<T>* packed) {
  using C = gemm_compute_t<T>;
  if (b.col_stride == 1) {
    // Row by row, so that memory is read in order.
    for (int64_t depth = 0; depth < k; ++depth) {
      for (int64_t col = 0, count = 0; col < n; col += count) {
        count = panel_columns<C>(n - col);
        const int64_t width = padded<C>(count);
        pack_step<C>(b.at(depth, col), count, width, packed + col * k + depth * width);
      }
    }
    return;
  }
  for (int64_t col = 0, count = 0; col < n; col += count) {
    count = panel_columns<C>(n - col);
    const int64_t width = padded<C>(count);
    C* dst = packed + col * k;
    if (b.row_stride == 1) {
      pack_contiguous<C>(b.at(0, col), b.col_stride, count, k, width, dst);
    } else {
      pack_strided<C>(b.at(0, col), b.col_stride, b.row_stride, count, k, width, dst);
    }
  }
}

/// Whether packing the rows of a pays: it costs about as much as multiplying with a few panels.
/// Integers, which are rare, are always packed: their tiles in place would take 0.3 MB.
template <class T>
[[gnu::always_inline]] inline bool packs_a(const BlockProduct<T>& product) {
  using C = gemm_compute_t<T>;
  if constexpr (!std::is_same_v<T, C>) return true;
  return product.n > (product.a.col_stride == 1 ? Tile<C>::kColumnsInPlace : 192);
}

template <class C>
struct PanelOfB {
  const C* data;
  int64_t row_stride;
};

/// Columns col.. of b as the tile reads them. A last panel that is not a whole number of vectors
/// is copied, because the tile would read past the rows of b.
template <class T>
[[gnu::always_inline]] inline PanelOfB<gemm_compute_t<T>> panel_of_b(const BlockProduct<T>& product,
                                                                     int64_t col, int64_t columns,
                                                                     gemm_compute_t<T>* scratch) {
  using C = gemm_compute_t<T>;
  const int64_t width = padded<C>(columns);
  if (product.b_packed != nullptr) return {product.b_packed + col * product.k, width};
  if (columns == width) return {product.b.at(0, col), product.b.row_stride};
  for (int64_t depth = 0; depth < product.k; ++depth) {
    pack_step<C>(product.b.at(depth, col), columns, width, scratch + depth * width);
  }
  return {scratch, width};
}

template <class T>
void multiply(const BlockProduct<T>& product) {
  using C = gemm_compute_t<T>;
  constexpr int64_t kWidth = Tile<C>::kWidth;
  constexpr int64_t kRows = Tile<C>::kRows;
  constexpr int64_t kGroup = Tile<C>::kGroup * kWidth;
  const int64_t k = product.k;
  C* const tail_of_b = product.scratch;
  C* const packed_a = product.scratch + kWidth * Tile<C>::kDepth;
  const bool pack = packs_a(product);
  // Panels of equal height, so that no small remainder is left.
  const int64_t panels = (product.m + kRows - 1) / kRows;
  const int64_t height = (product.m + panels - 1) / panels;
  const int64_t rows_at_once = pack ? Tile<C>::kRowsInCache / kRows * height : product.m;
  for (int64_t row = 0; row < product.m; row += rows_at_once) {
    const int64_t row_end = min_of(row + rows_at_once, product.m);
    if (pack) {
      const MatrixView<const T> a = {product.a.at(row, 0), product.a.row_stride,
                                     product.a.col_stride};
      pack_a<T>(a, row_end - row, height, k, packed_a);
    }
    for (int64_t group = 0, group_end = 0; group < product.n; group = group_end) {
      // The narrowed panels at the end stay with the group before them.
      const int64_t rest = product.n - group;
      group_end = rest < kGroup + kWidth ? product.n : group + kGroup;
      for (int64_t i = row; i < row_end; i += height) {
        const int64_t rows = min_of(height, row_end - i);
        for (int64_t col = group, columns = 0; col < group_end; col += columns) {
          columns = panel_columns<C>(product.n - col);
          const int64_t vectors = padded<C>(columns) / kLanes<C>;
          const PanelOfB<C> b = panel_of_b<T>(product, col, columns, tail_of_b);
          const TileOut<C> out = {product.out + i * product.out_row_stride + col,
                                  product.out_row_stride, columns, product.alpha, product.beta};
          if (pack) {
            const MatrixView<const C> a = {packed_a + (i - row) * k, 1, rows};
            kTiles<C, true>.at[rows - 1][vectors - 1]({k, a, b.data, b.row_stride}, out);
          } else if constexpr (std::is_same_v<T, C>) {
            const MatrixView<const C> a = {product.a.at(i, 0), product.a.row_stride,
                                           product.a.col_stride};
            kTiles<C, false>.at[rows - 1][vectors - 1]({k, a, b.data, b.row_stride}, out);
          }
        }
      }
    }
  }
}

/// A row of out whose elements are contiguous.
template <class T>
void finish_row(int64_t n, const gemm_compute_t<T>* sums, T* out, gemm_compute_t<T> alpha,
                gemm_compute_t<T> beta) {
  using C = gemm_compute_t<T>;
  constexpr int W = kLanes<C>;
  int64_t j = 0;
  for (; j + W <= n; j += W) {
    Vector<C> value = alpha * load<Vector<C>>(sums + j);
    if (beta != C{0}) value = multiply_add<C>(beta, load_wide<C, W>(out + j), value);
    store_narrow<T, C>(out + j, value);
  }
  for (; j < n; ++j) {
    const C value = alpha * sums[j];
    out[j] = narrow<T>(beta == C{0} ? value : multiply_add<C>(beta, widen<C>(out[j]), value));
  }
}

/// Sums as rows of an out whose columns are contiguous.
template <class C>
void store_transposed(int64_t m, int64_t n, const C* sums, C* out, int64_t col_stride) {
  constexpr int kGroups = kLanes<C> >= 4 ? kLanes<C> / 4 : 1;
  constexpr int64_t kLines = 4 * kGroups;
  const int64_t whole = n / 4 * 4;
  int64_t i = 0;
  for (; i + kLines <= m; i += kLines) {
    const C* lines[kLines];
    for (int64_t line = 0; line < kLines; ++line) lines[line] = sums + (i + line) * n;
    for (int64_t j = 0; j < whole; j += 4)
      transpose_4x4<C, kGroups>(lines, j, out + j * col_stride + i, col_stride);
    for (int64_t line = 0; line < kLines; ++line)
      for (int64_t j = whole; j < n; ++j) out[j * col_stride + i + line] = lines[line][j];
  }
  for (; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) out[j * col_stride + i] = sums[i * n + j];
}

template <class T>
void finish(int64_t m, int64_t n, const gemm_compute_t<T>* sums, MatrixView<T> out,
            gemm_compute_t<T> alpha, gemm_compute_t<T> beta) {
  using C = gemm_compute_t<T>;
  if constexpr (std::is_floating_point_v<T>)
    if (out.row_stride == 1 && out.col_stride != 1 && alpha == C{1} && beta == C{0})
      return store_transposed<C>(m, n, sums, out.data, out.col_stride);
  for (int64_t i = 0; i < m; ++i) {
    const C* row = sums + i * n;
    if (out.col_stride == 1) {
      finish_row<T>(n, row, out.at(i, 0), alpha, beta);
      continue;
    }
    for (int64_t j = 0; j < n; ++j) {
      T* const place = out.at(i, j);
      const C value = alpha * row[j];
      *place = narrow<T>(beta == C{0} ? value : multiply_add<C>(beta, widen<C>(*place), value));
    }
  }
}

}  // namespace

template <class T>
const BlockKernels<T>& block_kernels() {
  using C = gemm_compute_t<T>;
  static constexpr BlockKernels<T> kernels = {
      .vector_width = kLanes<C>,
      .panel_width = Tile<C>::kWidth,
      .panel_height = Tile<C>::kRows,
      .row_block = Tile<C>::kRowsInCache,
      .column_multiple = kLanes<C>,
      .columns_in_cache = 2048 / sizeof(C),
      .columns_in_place = std::is_same_v<T, C> ? Tile<C>::kColumnsInPlace : 0,
      .k_block = Tile<C>::kDepth,
      .k_multiple = 8,
      .scratch = (Tile<C>::kWidth + Tile<C>::kRowsInCache) * Tile<C>::kDepth,
      .panels = panels<C>,
      .pack_b = pack_b<T>,
      .multiply = multiply<T>,
      .finish = finish<T>,
  };
  return kernels;
}

template const BlockKernels<float>& block_kernels();
template const BlockKernels<double>& block_kernels();
template const BlockKernels<Half>& block_kernels();
template const BlockKernels<BFloat16>& block_kernels();
template const BlockKernels<int64_t>& block_kernels();
template const BlockKernels<int32_t>& block_kernels();
template const BlockKernels<int16_t>& block_kernels();
template const BlockKernels<int8_t>& block_kernels();
template const BlockKernels<uint8_t>& block_kernels();

}  // namespace tensora::cpu::TENSORA_ISA

#pragma once

// Internal header
// Note [Convolutions by Winograd]
// A convolution with a kernel of 3 x 3 that visits every position takes 9 multiplications per
// result. Tiles of 2 x 2 results need 16 instead of 36 if the tile of 4 x 4 that they read, and the
// kernel, are first transformed by a few additions: the products of the transformed elements,
// summed over the channels, are transformed back. So the convolution becomes 16 matrix products,
// [tiles, channels in] @ [channels in, channels out]. Its gradients are the transposed maps: of the
// input the same convolution with the kernel turned round, of the weight 16 products that sum over
// tiles. All factors are 1 or a power of two, so the results are nearly as accurate as by the
// definition; but an infinity in the input becomes NaN in all results of its tile.
// A block of tiles is transformed, multiplied and transformed back while it is in the cache. Blocks
// and the parts of k depend on the shape alone, so the results do not depend on the threads.

#include <algorithm>
#include <cstring>

#include "tensora/backend/cpu/gemm_product.h"
#include "tensora/backend/cpu/gemm_scratch.h"
#include "tensora/backend/cpu/gemm_tile.h"
#include "tensora/backend/cpu/scratch.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/conv/gather_plan.h"

namespace tensora::cpu::TENSORA_ISA::winograd {

using Lanes = Vector<float>;  // as many channels
inline constexpr int64_t kChannels = kLanes<float>;
inline constexpr int64_t kElements = 16;  // of a transformed tile
inline constexpr int64_t kPadding = 16;   // behind each of 16 matrices: else they share cache sets

/// Whether it pays: enough tiles for each transformed kernel, enough channels for each tile.
/// Channels are a whole number of vectors, and a row of tiles, which is not divided, is not deeper
/// than the products of the weight's gradient may be.
inline bool is_worth_it(const ConvolutionAxes& axes, int64_t batch, int64_t in_channels,
                        int64_t out_channels, int64_t groups) {
  if (groups != 1 || axes[0].kernel * axes[0].large != 1) return false;
  for (const ConvolutionAxis& a : {axes[1], axes[2]})
    if (a.kernel != 3 || a.stride != 1 || a.dilation != 1 || a.large < 2 || a.small < 2)
      return false;
  if (ceil_div(axes[2].small, 2) > Tile<float>::kDepth) return false;
  const int64_t tiles = batch * (axes[1].small / 2) * (axes[2].small / 2);
  return in_channels % 16 == 0 && out_channels % 16 == 0 && in_channels >= 32 &&
         out_channels >= 32 && tiles >= 32;
}

/// Whether rows of pixels, or the channels of a pixel, are neighbours in memory.
template <class T>
bool is_readable(const Volumes<T>& x) {
  return x.channel_stride == 1 || x.stride[2] == 1;
}

// ---- transforms of one tile --------------------------------------------------------------------

// Maps of lines. Those of the gradients are the others, transposed.

[[gnu::always_inline]] inline void map_reads(const Lanes (&d)[4], Lanes (&to)[4]) {
  to[0] = d[0] - d[2];
  to[1] = d[1] + d[2];
  to[2] = d[2] - d[1];
  to[3] = d[1] - d[3];
}
[[gnu::always_inline]] inline void map_kernel(const Lanes (&g)[3], Lanes (&to)[4]) {
  const Lanes even = 0.5f * (g[0] + g[2]), odd = 0.5f * g[1];
  to[0] = g[0];
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = g[2];
}
[[gnu::always_inline]] inline void map_results(const Lanes (&m)[4], Lanes (&to)[2]) {
  to[0] = m[0] + m[1] + m[2];
  to[1] = m[1] - m[2] - m[3];
}
[[gnu::always_inline]] inline void map_result_grads(const Lanes (&y)[2], Lanes (&to)[4]) {
  to[0] = y[0];
  to[1] = y[0] + y[1];
  to[2] = y[0] - y[1];
  to[3] = -y[1];
}
[[gnu::always_inline]] inline void map_kernel_grads(const Lanes (&u)[4], Lanes (&to)[3]) {
  const Lanes sum = 0.5f * (u[1] + u[2]);
  to[0] = u[0] + sum;
  to[1] = 0.5f * (u[1] - u[2]);
  to[2] = sum + u[3];
}

/// Applies a map of lines, from `In` elements to `Out`, to the columns and then to the rows.
template <auto map, int In, int Out>
[[gnu::always_inline]] inline void transform(const Lanes (&from)[In][In], Lanes (&to)[Out][Out]) {
  Lanes half[Out][In];
#pragma GCC unroll 4
  for (int j = 0; j < In; ++j) {
    Lanes column[In], mapped[Out];
#pragma GCC unroll 4
    for (int i = 0; i < In; ++i) column[i] = from[i][j];
    map(column, mapped);
#pragma GCC unroll 4
    for (int i = 0; i < Out; ++i) half[i][j] = mapped[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < Out; ++i) map(half[i], to[i]);
}

// ---- images ------------------------------------------------------------------------------------

/// Pixels of an image; may reach out of it.
struct Window {
  int64_t image = 0, row = 0, col = 0;
  int64_t rows = 0, cols = 0;
};

/// kChannels channels of a window, channels inside; zeros outside of the image.
inline void gather(const Volumes<const float>& in, int64_t channel, const Window& window,
                   float* to) {
  const auto zero = [](float* pixels, int64_t count) {
    std::memset(pixels, 0, static_cast<size_t>(count * kChannels) * sizeof(float));
  };
  const int64_t left = std::clamp<int64_t>(-window.col, 0, window.cols);
  const int64_t right = std::clamp<int64_t>(in.size[2] - window.col, left, window.cols);
  for (int64_t r = 0; r < window.rows; ++r, to += window.cols * kChannels) {
    const int64_t y = window.row + r;
    if (y < 0 || y >= in.size[1]) {
      zero(to, window.cols);
      continue;
    }
    zero(to, left);
    zero(to + right * kChannels, window.cols - right);
    const float* const from = in.data + window.image * in.batch_stride +
                              channel * in.channel_stride + y * in.stride[1] +
                              (window.col + left) * in.stride[2];
    if (in.channel_stride == 1) {
      for (int64_t i = 0; i < right - left; ++i)
        store(to + (left + i) * kChannels, load<Lanes>(from + i * in.stride[2]));
    } else {
      const float* lines[kChannels];
      for (int64_t c = 0; c < kChannels; ++c) lines[c] = from + c * in.channel_stride;
      pack_lines<float>(lines, right - left, kChannels, to + left * kChannels);
    }
  }
}

/// The reverse, for a window that begins within the image; what reaches out of it is dropped.
inline void scatter(const float* from, const Window& window, int64_t channel,
                    const Volumes<float>& out) {
  const int64_t rows = std::min(window.rows, out.size[1] - window.row);
  const int64_t cols = std::min(window.cols, out.size[2] - window.col);
  for (int64_t r = 0; r < rows; ++r, from += window.cols * kChannels) {
    float* const to = out.data + window.image * out.batch_stride + channel * out.channel_stride +
                      (window.row + r) * out.stride[1] + window.col * out.stride[2];
    int64_t x = 0;
    if (out.channel_stride == 1) {
      for (; x < cols; ++x) store(to + x * out.stride[2], load<Lanes>(from + x * kChannels));
      continue;
    }
    for (; x + 4 <= cols; x += 4) {
      const float* lines[4];
      for (int64_t i = 0; i < 4; ++i) lines[i] = from + (x + i) * kChannels;
      for (int64_t c = 0; c < kChannels; c += 4)
        transpose_4x4<float>(lines, c, to + c * out.channel_stride + x, out.channel_stride);
    }
    for (; x < cols; ++x)
      for (int64_t c = 0; c < kChannels; ++c)
        to[c * out.channel_stride + x] = from[x * kChannels + c];
  }
}

// ---- blocks of tiles ---------------------------------------------------------------------------

/// The tiles that cover the results of all images, in blocks of whole rows of tiles.
class Grid {
 public:
  /// Tiles of results of `height` x `width`; blocks of about `wanted` tiles.
  Grid(int64_t batch, int64_t height, int64_t width, int64_t wanted)
      : down_(ceil_div(height, 2)), across_(ceil_div(width, 2)), rows_(batch * down_) {
    const int64_t blocks = ceil_div(rows_ * across_, wanted);
    rows_at_once_ = std::max<int64_t>(1, rows_ / blocks);
  }

  int64_t blocks() const { return ceil_div(rows_, rows_at_once_); }
  int64_t most_tiles() const { return rows_at_once_ * across_; }
  int64_t tiles(int64_t block) const {
    return std::min(rows_at_once_, rows_ - block * rows_at_once_) * across_;
  }
  int64_t across() const { return across_; }

  /// body(image, first row of tiles, rows, tiles of the block before them) for a block's images.
  template <class Body>
  void each_image(int64_t block, Body body) const {
    const int64_t begin = block * rows_at_once_, end = std::min(begin + rows_at_once_, rows_);
    for (int64_t row = begin, count = 0; row < end; row += count) {
      count = std::min(end - row, down_ - row % down_);
      body(row / down_, row % down_, count, (row - begin) * across_);
    }
  }

 private:
  int64_t down_, across_, rows_, rows_at_once_;
};

/// The panel of a packed matrix, as pack_b makes them, in which a column lies.
struct Panel {
  int64_t first = 0, width = 0;

  Panel(int64_t column, int64_t columns) {
    do {
      first += width;
      width = panel_columns<float>(columns - first);
    } while (column >= first + width);
  }
};

/// 16 matrices with a row per tile, as one side of the products wants them.
struct Matrices {
  float* data = nullptr;
  int64_t stride = 0;    // between the matrices
  int64_t per_tile = 0;  // elements between tiles
};

/// Transforms kChannels channels of a block, of which the first is at `to.data`; every tile reads
/// N x N pixels, the first one those at `row`, `col` of the image.
template <auto map, int N>
void transform_block(const Grid& grid, int64_t block, const Volumes<const float>& in,
                     int64_t channel, int64_t row, int64_t col, const Matrices& to) {
  grid.each_image(block, [&](int64_t image, int64_t first, int64_t count, int64_t before) {
    const Window window{image, row + 2 * first, col, 2 * count + N - 2, 2 * grid.across() + N - 2};
    float* const pixels = GemmScratch::of_this_thread().get<float>(
        GemmScratch::Purpose::dense_a, window.rows * window.cols * kChannels);
    gather(in, channel, window, pixels);
    for (int64_t tile = 0; tile < count * grid.across(); ++tile) {
      const int64_t y = tile / grid.across() * 2, x = tile % grid.across() * 2;
      Lanes read[N][N], transformed[4][4];
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j)
          read[i][j] = load<Lanes>(pixels + ((y + i) * window.cols + x + j) * kChannels);
      transform<map>(read, transformed);
      float* const at = to.data + (before + tile) * to.per_tile;
#pragma GCC unroll 16
      for (int e = 0; e < kElements; ++e) store(at + e * to.stride, transformed[e / 4][e % 4]);
    }
  });
}

}  // namespace tensora::cpu::TENSORA_ISA::winograd

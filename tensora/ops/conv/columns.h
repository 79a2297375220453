#pragma once

// Internal header
// The inputs that a tile of positions reads, gathered as a matrix that fits into the cache: the
// matrix as a whole (im2col) is never built.

#include <cstring>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/gemm_kernels.h"
#include "tensora/backend/cpu/gemm_scratch.h"
#include "tensora/backend/cpu/gemm_tile.h"
#include "tensora/backend/cpu/scratch.h"
#include "tensora/ops/conv/gather_plan.h"

namespace tensora::cpu::TENSORA_ISA {

/// For bfloat16 the kernels of the processor's instructions for it, if there are any.
template <class T>
const BlockKernels<T>& native_or(const BlockKernels<T>& kernels) {
  if constexpr (std::is_same_v<T, BFloat16>)
    if (const BlockKernels<T>* const native = native_bfloat16_kernels()) return *native;
  return kernels;
}

/// Neighbouring positions along the innermost dim; the first is number `at` of its tile.
struct Run {
  int64_t image, d, h, w, count, at;
};

/// Positions first … first + count of a part; images are outermost.
inline std::vector<Run> runs_of(const GatherPart& part, int64_t first, int64_t count) {
  const int64_t width = part.axis[2].count, height = part.axis[1].count, depth = part.axis[0].count;
  std::vector<Run> runs;
  for (int64_t at = 0; at < count;) {
    const int64_t line = (first + at) / width, w = (first + at) % width;
    const int64_t length = std::min(width - w, count - at);
    runs.push_back({line / height / depth, line / height % depth, line % height, w, length, at});
    at += length;
  }
  return runs;
}

/// One tap in all dims.
struct Taps {
  const Tap *d, *h, *w;
};
inline Taps taps_at(const GatherPart& part, int64_t index) {
  const auto& axis = part.axis;
  const auto heights = static_cast<int64_t>(axis[1].taps.size());
  const auto widths = static_cast<int64_t>(axis[2].taps.size());
  return {&axis[0].taps[static_cast<size_t>(index / widths / heights)],
          &axis[1].taps[static_cast<size_t>(index / widths % heights)],
          &axis[2].taps[static_cast<size_t>(index % widths)]};
}

/// What the positions of a run read through a tap: `inside` of them from `from` on, after `before`
/// positions in the padding and followed by others there.
struct Reads {
  int64_t before = 0, inside = 0;
  int64_t from = 0;  // offset of the first, without its channel
};
template <class T>
Reads reads_of(const Volumes<const T>& in, const GatherPart& part, const Run& run,
               const Taps& taps) {
  if (run.d < taps.d->begin || run.d >= taps.d->end || run.h < taps.h->begin ||
      run.h >= taps.h->end)
    return {run.count, 0, 0};
  const int64_t begin = std::clamp(taps.w->begin, run.w, run.w + run.count);
  const int64_t end = std::clamp(taps.w->end, begin, run.w + run.count);
  const auto at = [&](size_t dim, const Tap& tap, int64_t j) {
    return (j * part.axis[dim].in_step + tap.offset) * in.stride[dim];
  };
  const int64_t from = run.image * in.batch_stride + at(0, *taps.d, run.d) + at(1, *taps.h, run.h) +
                       at(2, *taps.w, begin);
  return {begin - run.w, end - begin, begin < end ? from : 0};
}

/// Elements `stride` apart as neighbours of type C.
template <class T, class C>
void load_run(const T* from, int64_t stride, int64_t n, C* to) {
  if constexpr (std::is_same_v<T, C>) {
    if (stride == 1)
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
    else
      for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  } else {
    load_tile<T, C>(from, stride, n, to);
  }
}

/// A range of the k rows of a column matrix.
struct RowRange {
  int64_t first_channel = 0;  // of the group
  int64_t begin = 0, end = 0;
};

/// The columns of some positions.
template <class T>
class ColumnTile {
 public:
  ColumnTile(const Volumes<const T>& in, const GatherPart& part, int64_t first, int64_t count)
      : in_(in),
        taps_(part.taps()),
        positions_(count),
        runs_(runs_of(part, first, count)),
        step_(part.axis[2].in_step * in.stride[2]) {
    // The same for all channels.
    reads_.reserve(static_cast<size_t>(taps_) * runs_.size());
    for (int64_t t = 0; t < taps_; ++t)
      for (const Run& run : runs_) reads_.push_back(reads_of(in, part, run, taps_at(part, t)));
  }

  std::span<const Run> runs() const { return runs_; }
  int64_t positions() const { return positions_; }

  /// [k][positions] for inputs whose channels lie far apart: k = channel * taps + tap.
  void gather_rows(const RowRange& rows, T* to) const {
    for (int64_t k = rows.begin; k < rows.end; ++k, to += positions_)
      gather_row(rows.first_channel + k / taps_, k % taps_, to);
  }

  /// The same in panels as BlockKernels::pack_b makes them; `row` has room for one row.
  void pack_rows(const RowRange& rows, T* row, T* packed) const {
    const int64_t k = rows.end - rows.begin;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t index = rows.begin + i;
      gather_row(rows.first_channel + index / taps_, index % taps_, row);
      for (int64_t col = 0, count = 0; col < positions_; col += count) {
        count = panel_columns<T>(positions_ - col);
        const int64_t width = padded<T>(count);
        T* const to = packed + col * k + i * width;
        std::memcpy(to, row + col, static_cast<size_t>(count) * sizeof(T));
        for (int64_t j = count; j < width; ++j) to[j] = T{};
      }
    }
  }

  /// [positions][k] for inputs whose channels are neighbours: k = tap * channels + channel.
  void gather_pixels(int64_t channels, const RowRange& rows, T* columns) const {
    const int64_t width = rows.end - rows.begin;
    for (int64_t k = rows.begin; k < rows.end;) {
      const int64_t tap = k / channels, channel = k % channels;
      const int64_t count = std::min(channels - channel, rows.end - k);
      const auto bytes = static_cast<size_t>(count) * sizeof(T);
      const Reads* reads = reads_.data() + tap * static_cast<int64_t>(runs_.size());
      for (const Run& run : runs_) {
        T* to = columns + run.at * width + (k - rows.begin);
        const T* from = in_.data + reads->from + (rows.first_channel + channel);
        const int64_t end = reads->before + reads->inside;
        int64_t j = 0;
        for (; j < reads->before; ++j, to += width) std::memset(to, 0, bytes);
        for (; j < end; ++j, to += width, from += step_) std::memcpy(to, from, bytes);
        for (; j < run.count; ++j, to += width) std::memset(to, 0, bytes);
        ++reads;
      }
      k += count;
    }
  }

 private:
  void gather_row(int64_t channel, int64_t tap, T* row) const {
    const T* const plane = in_.data + channel * in_.channel_stride;
    const Reads* reads = reads_.data() + tap * static_cast<int64_t>(runs_.size());
    for (const Run& run : runs_) {
      T* const to = row + run.at;
      for (int64_t i = 0; i < reads->before; ++i) to[i] = T{};
      if (reads->inside > 0)
        load_run(plane + reads->from, step_, reads->inside, to + reads->before);
      for (int64_t i = reads->before + reads->inside; i < run.count; ++i) to[i] = T{};
      ++reads;
    }
  }

  const Volumes<const T>& in_;
  int64_t taps_, positions_;
  std::vector<Run> runs_;
  int64_t step_;
  std::vector<Reads> reads_;  // tap, run
};

/// Tiles of the positions of a part, of at most `most`, a multiple of 16. Large images are cut into
/// tiles of their own; small ones share a tile if they may.
struct TileGrid {
  int64_t unit = 0, tiles_per_unit = 0, tile = 0, count = 0;

  TileGrid(int64_t images, int64_t positions, int64_t most, bool may_share = true) {
    const bool share = may_share && positions < most / 2;
    unit = share ? images * positions : positions;
    tiles_per_unit = (unit + most - 1) / most;
    constexpr int64_t kWhole = 16;
    tile = tiles_per_unit == 0
               ? 0
               : ((unit + tiles_per_unit - 1) / tiles_per_unit + kWhole - 1) / kWhole * kWhole;
    tiles_per_unit = tile == 0 ? 0 : (unit + tile - 1) / tile;
    count = tiles_per_unit * (share ? 1 : images);
  }
  int64_t begin(int64_t index) const {
    return index / tiles_per_unit * unit + index % tiles_per_unit * tile;
  }
  int64_t size(int64_t index) const { return std::min(tile, unit - index % tiles_per_unit * tile); }
};

}  // namespace tensora::cpu::TENSORA_ISA

#pragma once

// Internal header
// Note [Tiles of a convolution]
// A tile of positions is gathered into columns (columns.h) and multiplied with the weight by the
// register tiles of gemm: [positions, k] @ [k, channels out]. The weight is packed once for all
// tiles. Whole pixels are copied if the input's channels are neighbours in memory, else whole rows.
// With few output channels the product is turned round, [channels out, k] @ [k, positions], so that
// vectors are full; and with rows for the instructions of bfloat16, whose panels of b want pairs of
// rows. k is divided as the kernels need it. Tiles, and the order in which an element
// is summed, depend on the shapes alone.

#include "tensora/base/thread_pool.h"
#include "tensora/ops/conv/columns.h"

namespace tensora::cpu::TENSORA_ISA {

/// The weight as the gather sees it: element (group, out channel, in channel, tap).
template <class T>
struct WeightView {
  const T* data = nullptr;
  int64_t group_stride = 0, out_stride = 0, in_stride = 0;
  std::array<int64_t, kSpatial> tap_stride = {};

  int64_t offset(const Taps& taps) const {
    return taps.d->kernel * tap_stride[0] + taps.h->kernel * tap_stride[1] +
           taps.w->kernel * tap_stride[2];
  }
};

template <class T>
struct GatherArgs {
  Volumes<const T> in;
  Volumes<T> out;
  WeightView<T> weight;
  const T* bias = nullptr;
  int64_t bias_stride = 0;
  int64_t groups = 1;

  int64_t in_channels() const { return in.channels / groups; }
  int64_t out_channels() const { return out.channels / groups; }
};

/// The weight of a part as matrices: group, out channel, k.
template <class T>
class WeightMatrix {
 public:
  WeightMatrix(const GatherArgs<T>& args, const GatherPart& part, bool pixels)
      : rows_(args.out_channels()),
        k_(args.in_channels() * part.taps()),
        dense_(in_place(args, part, pixels) ? 0 : args.groups * rows_ * k_) {
    if (dense_.data() == nullptr) return;
    const int64_t taps = part.taps(), channels = args.in_channels();
    std::vector<int64_t> offsets;
    for (int64_t t = 0; t < taps; ++t) offsets.push_back(args.weight.offset(taps_at(part, t)));
    // Some rows at a time: in a transposed convolution these are neighbours in the weight.
    constexpr int64_t kRows = 16;
    const int64_t blocks = (rows_ + kRows - 1) / kRows;
    parallel_for(args.groups * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t group = block / blocks, first = block % blocks * kRows;
        const int64_t last = std::min(first + kRows, rows_);
        const T* const from = args.weight.data + group * args.weight.group_stride;
        T* const to = dense_.data() + group * rows_ * k_;
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t row = first; row < last; ++row) {
            const T* const source = from + row * args.weight.out_stride + c * args.weight.in_stride;
            T* const target = to + row * k_ + (pixels ? c : c * taps);
            const int64_t step = pixels ? channels : 1;
            for (int64_t t = 0; t < taps; ++t)
              target[t * step] = source[offsets[static_cast<size_t>(t)]];
          }
      }
    });
    view_ = {dense_.data(), k_, 1};
    group_stride_ = rows_ * k_;
  }

  /// out channel, k
  MatrixView<const T> group(int64_t g) const {
    return {view_.data + g * group_stride_, view_.row_stride, view_.col_stride};
  }

 private:
  // Whether the elements along k are equally far apart in the weight itself.
  bool in_place(const GatherArgs<T>& args, const GatherPart& part, bool pixels) {
    const int64_t taps = part.taps(), channels = args.in_channels();
    if (k_ == 0) return true;
    const int64_t first = args.weight.offset(taps_at(part, 0));
    const int64_t tap_step =
        taps > 1 ? args.weight.offset(taps_at(part, 1)) - first : args.weight.in_stride;
    for (int64_t t = 2; t < taps; ++t)
      if (args.weight.offset(taps_at(part, t)) != first + t * tap_step) return false;
    const int64_t inner = pixels ? args.weight.in_stride : tap_step;
    const int64_t outer = pixels ? tap_step : args.weight.in_stride;
    const int64_t inner_count = pixels ? channels : taps;
    const int64_t outer_count = pixels ? taps : channels;
    const int64_t step = inner_count > 1 ? inner : outer;
    if (inner_count > 1 && outer_count > 1 && outer != inner * inner_count) return false;
    view_ = {args.weight.data + first, args.weight.out_stride, step};
    group_stride_ = args.weight.group_stride;
    return true;
  }

  int64_t rows_, k_;
  MatrixView<const T> view_;
  int64_t group_stride_ = 0;
  HostScratch<T> dense_;
};

template <class T>
class GatherProduct {
  using C = gemm_compute_t<T>;
  using Purpose = GemmScratch::Purpose;
  static constexpr bool kStoredAsComputed = std::is_same_v<T, C>;

 public:
  GatherProduct(const GatherArgs<T>& args, const GatherPart& part)
      : args_(args),
        part_(part),
        pixels_(args.in.channels_inside()),
        tall_(pixels_ || (!native_ && args.out_channels() >= kWideEnough)),
        k_(args.in_channels() * part.taps()),
        matrix_(args, part, pixels_),
        grid_(args.in.batch, part.positions(), native_ ? 2 * kPositions : kPositions),
        panels_(tall_ ? args.groups * panel_elements() : 0) {}

  void run() const {
    const int64_t channels = args_.out_channels();
    if (tall_) pack_weight();
    // Few tiles: the channels of the result are divided too. Each part gathers the columns again,
    // which takes longer than products by tile registers.
    const int64_t tasks_wanted = native_ ? get_num_threads() : 16;
    const int64_t tiles = grid_.count * args_.groups;
    if (tiles == 0 || channels == 0) return;
    const int64_t panels = block_.panels(channels);
    const int64_t wanted =
        std::clamp<int64_t>(tasks_wanted / tiles, 1, std::min(panels, channels / 128 + 1));
    const int64_t chunk = (panels + wanted - 1) / wanted * block_.panel_width;
    const int64_t chunks = (panels * block_.panel_width + chunk - 1) / chunk;
    parallel_for(tiles * chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % chunks * chunk;
        const bool last = task % chunks == chunks - 1;  // it may have some channels more
        const int64_t group = task / chunks % args_.groups;
        run_tile(group, task / chunks / args_.groups, first, last ? channels - first : chunk);
      }
    });
  }

 private:
  static constexpr int64_t kPositions = 96;   // of a tile
  static constexpr int64_t kWideEnough = 16;  // channels

  /// Where a tile's sums go: into the result itself, if it has a matrix's strides there.
  struct Target {
    C* data;
    int64_t row_stride;
    bool in_place;
  };

  int64_t panel_elements() const { return k_ * padded<C>(args_.out_channels()); }

  /// The weight as panels of [k, out channels], a block of k after the other.
  C* panels(int64_t group, int64_t k) const {
    return panels_.data() + group * panel_elements() + k * padded<C>(args_.out_channels());
  }

  void pack_weight() const {
    const int64_t blocks = (k_ + block_.k_block - 1) / block_.k_block;
    parallel_for(args_.groups * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i / blocks, k = i % blocks * block_.k_block;
        const MatrixView<const T> rows = matrix_.group(group);
        const MatrixView<const T> b = {rows.at(0, k), rows.col_stride, rows.row_stride};
        block_.pack_b(b, std::min(block_.k_block, k_ - k), args_.out_channels(), panels(group, k));
      }
    });
  }

  void run_tile(int64_t group, int64_t index, int64_t first, int64_t channels) const {
    const int64_t begin = grid_.begin(index), size = grid_.size(index);
    const ColumnTile<T> tile(args_.in, part_, begin, size);
    const int64_t out_channel = group * args_.out_channels() + first;
    const Target target = target_of(begin, size, out_channel, channels);
    const C beta = start(target, size, out_channel, channels);
    if (tall_)
      multiply_tall(group, tile, first, channels, target, beta);
    else
      multiply_wide(group, tile, first, channels, target, beta);
    if (!target.in_place) store(tile.runs(), out_channel, channels, target);
  }

  Target target_of(int64_t begin, int64_t size, int64_t channel, int64_t channels) const {
    if constexpr (kStoredAsComputed) {
      const Volumes<T>& out = args_.out;
      const int64_t positions = part_.positions(), spacing = out.position_stride();
      const bool whole = positions == out.positions() && out.evenly_spaced();
      const bool one_image = begin / positions == (begin + size - 1) / positions;
      const bool joined = one_image || out.batch_stride == positions * spacing;
      T* const data = out.data + begin / positions * out.batch_stride +
                      begin % positions * spacing + channel * out.channel_stride;
      if (whole && joined && !tall_ && spacing == 1) return {data, out.channel_stride, true};
      if (whole && joined && tall_ && out.channel_stride == 1) return {data, spacing, true};
    }
    const int64_t row = tall_ ? channels : size;
    return {GemmScratch::of_this_thread().template get<C>(Purpose::sums, channels * size), row,
            false};
  }

  /// Sets the sums to the bias, or to 0 if nothing is added to them; returns beta of what follows.
  C start(const Target& target, int64_t size, int64_t channel, int64_t channels) const {
    if (args_.bias == nullptr && k_ > 0) return C(0);
    const auto bias = [&](int64_t c) {
      return args_.bias == nullptr
                 ? C(0)
                 : convert_element<C>(args_.bias[(channel + c) * args_.bias_stride]);
    };
    const int64_t rows = tall_ ? size : channels, columns = tall_ ? channels : size;
    for (int64_t i = 0; i < rows; ++i) {
      C* const row = target.data + i * target.row_stride;
      for (int64_t j = 0; j < columns; ++j) row[j] = tall_ ? bias(j) : bias(i);
    }
    return C(1);
  }

  void multiply_wide(int64_t group, const ColumnTile<T>& tile, int64_t first, int64_t channels,
                     const Target& target, C beta) const {
    GemmScratch& scratch = GemmScratch::of_this_thread();
    const int64_t size = tile.positions(), width = padded<C>(size);
    const int64_t depth = std::min(k_, block_.k_block);
    C* const packed = scratch.get<C>(Purpose::packed_b, depth * width);
    T* const rows = scratch.get<T>(Purpose::dense_a, (kStoredAsComputed ? 1 : depth) * width);
    const MatrixView<const T> weight = matrix_.group(group);
    BlockProduct<T> product = {.m = channels,
                               .n = size,
                               .b_packed = packed,
                               .out = target.data,
                               .out_row_stride = target.row_stride,
                               .beta = beta,
                               .scratch = scratch.get<C>(Purpose::tile, block_.scratch)};
    for (int64_t k = 0; k < k_; k += block_.k_block) {
      product.k = std::min(block_.k_block, k_ - k);
      const RowRange range = {group * args_.in_channels(), k, k + product.k};
      if constexpr (kStoredAsComputed) {
        tile.pack_rows(range, rows, packed);
      } else {
        tile.gather_rows(range, rows);
        block_.pack_b({rows, size, 1}, product.k, size, packed);
      }
      product.a = {weight.at(first, k), weight.row_stride, weight.col_stride};
      block_.multiply(product);
      product.beta = C(1);
    }
  }

  void multiply_tall(int64_t group, const ColumnTile<T>& tile, int64_t first, int64_t channels,
                     const Target& target, C beta) const {
    GemmScratch& scratch = GemmScratch::of_this_thread();
    const int64_t size = tile.positions();
    const int64_t depth = std::min(k_, block_.k_block);
    T* const columns = scratch.get<T>(Purpose::dense_a, depth * size);
    BlockProduct<T> product = {.m = size,
                               .n = channels,
                               .out = target.data,
                               .out_row_stride = target.row_stride,
                               .beta = beta,
                               .scratch = scratch.get<C>(Purpose::tile, block_.scratch)};
    for (int64_t k = 0; k < k_; k += block_.k_block) {
      product.k = std::min(block_.k_block, k_ - k);
      const RowRange range = {group * args_.in_channels(), k, k + product.k};
      if (pixels_) {
        tile.gather_pixels(args_.in_channels(), range, columns);
        product.a = {columns, product.k, 1};
      } else {
        tile.gather_rows(range, columns);
        product.a = {columns, 1, size};
      }
      product.b_packed = panels(group, k) + first * product.k;
      block_.multiply(product);
      product.beta = C(1);
    }
  }

  void store(std::span<const Run> runs, int64_t channel, int64_t channels,
             const Target& target) const {
    const Volumes<T>& out = args_.out;
    for (const Run& run : runs) {
      const auto at = [&](size_t dim, int64_t j) {
        return (part_.axis[dim].out_start + j * part_.axis[dim].out_step) * out.stride[dim];
      };
      T* const to = out.data + run.image * out.batch_stride + at(0, run.d) + at(1, run.h) +
                    at(2, run.w) + channel * out.channel_stride;
      const int64_t step = part_.axis[2].out_step * out.stride[2];
      if (tall_ && out.channel_stride != 1) {
        for (int64_t c = 0; c < channels; ++c) {
          const C* const from = target.data + run.at * target.row_stride + c;
          for (int64_t j = 0; j < run.count; ++j)
            to[c * out.channel_stride + j * step] = store_element<T>(from[j * target.row_stride]);
        }
      } else if (tall_) {
        for (int64_t j = 0; j < run.count; ++j)
          store_tile<T, C>(target.data + (run.at + j) * target.row_stride, to + j * step,
                           out.channel_stride, channels);
      } else {
        for (int64_t c = 0; c < channels; ++c)
          store_tile<T, C>(target.data + c * target.row_stride + run.at,
                           to + c * out.channel_stride, step, run.count);
      }
    }
  }

  const GatherArgs<T>& args_;
  const GatherPart& part_;
  const BlockKernels<T>& block_ = native_or(block_kernels<T>());
  bool native_ = &block_ != &block_kernels<T>();  // b, not a, is packed fast from rows
  bool pixels_;                                   // the input's channels are neighbours
  bool tall_;                                     // the rows of the product are positions
  int64_t k_;
  WeightMatrix<T> matrix_;
  TileGrid grid_;
  HostScratch<C> panels_;
};

}  // namespace tensora::cpu::TENSORA_ISA

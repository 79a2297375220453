#pragma once

// Internal header
// The gradient of a weight: for every group, [channels out, positions] @ [positions, k]. The
// columns of a tile of positions are gathered as in gather_product.h. The k columns are divided
// among threads; where they are few, the positions too, and the slices' sums are added in order, so
// that the result does not depend on the number of threads.

#include "tensora/backend/cpu/gemm_product.h"
#include "tensora/backend/cpu/parts.h"
#include "tensora/ops/conv/columns.h"

namespace tensora::cpu::TENSORA_ISA {

template <class T>
struct WeightArgs {
  Volumes<const T> large, small;
  View weight;  // M C/groups K…, the result
  int64_t groups = 1;

  int64_t in_channels() const { return large.channels / groups; }
  int64_t out_channels() const { return small.channels / groups; }
  /// Offset of a tap in the weight.
  int64_t tap_offset(const Taps& taps) const {
    const int last = weight.dim() - 1;
    const int64_t kernel[] = {taps.w->kernel, taps.h->kernel, taps.d->kernel};
    int64_t offset = 0;
    for (int d = last; d >= 2; --d) offset += kernel[last - d] * weight.strides[d];
    return offset;
  }
};

template <class T>
class WeightProduct {
  using C = gemm_compute_t<T>;
  using Purpose = GemmScratch::Purpose;

 public:
  /// small must be evenly spaced.
  WeightProduct(const WeightArgs<T>& args, const GatherPart& part)
      : args_(args),
        part_(part),
        pixels_(args.large.channels_inside()),
        k_(args.in_channels() * part.taps()),
        in_place_(std::is_same_v<T, C> && !pixels_ && args.weight.contiguous),
        grid_(args.large.batch, part.positions(), block_.k_block / 16 * 16, images_join()),
        chunk_(round_up(ceil_div(k_, ceil_div(k_, most_columns())), block_.panel_width)),
        chunks_(ceil_div(k_, chunk_)),
        slices_(slices()),
        sums_((slices_ - (in_place_ ? 1 : 0)) * elements()) {}

  void run() const {
    if (args_.weight.numel == 0) return;
    if (grid_.count == 0) return zero_elements(args_.weight);
    parallel_for(args_.groups * chunks_ * slices_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task)
        run_task(task / slices_ / chunks_, task / slices_ % chunks_, task % slices_);
    });
    const int64_t rows = args_.groups * args_.out_channels();
    const int64_t grain = std::max<int64_t>(1, (1 << 15) / (k_ * slices_));
    parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) finish_row(row);
    });
  }

 private:
  /// With many channels out, enough for packing these to pay; else few, which stay in the L2 cache.
  int64_t most_columns() const { return args_.out_channels() > 128 ? 400 : 96; }
  int64_t elements() const { return args_.small.channels * k_; }

  bool images_join() const {
    return args_.small.batch_stride == args_.small.positions() * args_.small.position_stride();
  }

  int64_t slices() const {
    constexpr int64_t kTasks = 32, kMostElements = int64_t{4} << 20;
    const int64_t most = std::min(
        grid_.count, std::max<int64_t>(1, kMostElements / std::max<int64_t>(1, elements())));
    return std::clamp<int64_t>(kTasks / (args_.groups * chunks_), 1, std::max<int64_t>(1, most));
  }

  /// The first slice is summed in the weight itself where its layout is that of the sums.
  C* sums(int64_t slice, int64_t group) const {
    const int64_t offset = group * args_.out_channels() * k_;
    if (!in_place_) return sums_.data() + slice * elements() + offset;
    return slice == 0 ? args_.weight.template as<C>() + offset
                      : sums_.data() + (slice - 1) * elements() + offset;
  }

  void run_task(int64_t group, int64_t chunk, int64_t slice) const {
    const int64_t column = chunk * chunk_, columns = std::min(chunk_, k_ - column);
    const int64_t first = grid_.count * slice / slices_, last = grid_.count * (slice + 1) / slices_;
    GemmScratch& scratch = GemmScratch::of_this_thread();
    T* const gathered = scratch.get<T>(Purpose::dense_a, grid_.tile * columns);
    C* const packed = scratch.get<C>(Purpose::packed_b, grid_.tile * padded<C>(columns));
    const Volumes<const T>& small = args_.small;
    BlockProduct<T> product = {.m = args_.out_channels(),
                               .n = columns,
                               .b_packed = packed,
                               .out = sums(slice, group) + column,
                               .out_row_stride = k_,
                               .beta = C(0),
                               .scratch = scratch.get<C>(Purpose::tile, block_.scratch)};
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t begin = grid_.begin(tile), size = grid_.size(tile);
      const ColumnTile<T> gathered_tile(args_.large, part_, begin, size);
      const RowRange range = {group * args_.in_channels(), column, column + columns};
      product.k = size;
      block_.pack_b(gather(gathered_tile, range, gathered), size, columns, packed);
      const int64_t positions = part_.positions();
      product.a = {small.data + begin / positions * small.batch_stride +
                       begin % positions * small.position_stride() +
                       group * args_.out_channels() * small.channel_stride,
                   small.channel_stride, small.position_stride()};
      block_.multiply(product);
      product.beta = C(1);
    }
  }

  /// positions, columns
  MatrixView<const T> gather(const ColumnTile<T>& tile, const RowRange& range, T* to) const {
    if (pixels_) {
      tile.gather_pixels(args_.in_channels(), range, to);
      return {to, range.end - range.begin, 1};
    }
    tile.gather_rows(range, to);
    return {to, 1, tile.positions()};
  }

  void finish_row(int64_t row) const {
    const int64_t outs = args_.out_channels(), group = row / outs;
    C* const total = sums(0, group) + row % outs * k_;
    for (int64_t slice = 1; slice < slices_; ++slice) {
      const C* const more = sums(slice, group) + row % outs * k_;
#pragma omp simd
      for (int64_t k = 0; k < k_; ++k) total[k] += more[k];
    }
    if (in_place_) return;
    const View& weight = args_.weight;
    const int64_t taps = part_.taps(), channels = args_.in_channels();
    T* const to = weight.as<T>() + row * weight.strides[0];
    for (int64_t t = 0; t < taps; ++t) {
      T* const target = to + args_.tap_offset(taps_at(part_, t));
      const C* const from = total + (pixels_ ? t * channels : t);
      const int64_t step = pixels_ ? 1 : taps;
      for (int64_t c = 0; c < channels; ++c)
        target[c * weight.strides[1]] = store_element<T>(from[c * step]);
    }
  }

  const WeightArgs<T>& args_;
  const GatherPart& part_;
  const BlockKernels<T>& block_ = native_or(block_kernels<T>());
  bool pixels_;
  int64_t k_;
  bool in_place_;
  TileGrid grid_;
  int64_t chunk_, chunks_, slices_;
  HostScratch<C> sums_;
};

}  // namespace tensora::cpu::TENSORA_ISA

#pragma once

// Internal header
// Gradients of convolutions' weights by Note [Convolutions by Winograd].

#include "tensora/ops/conv/weight_product.h"
#include "tensora/ops/conv/winograd.h"

namespace tensora::cpu::TENSORA_ISA {

class WinogradWeight {
  using Lanes = winograd::Lanes;
  static constexpr int64_t kChannels = winograd::kChannels, kElements = winograd::kElements;

 public:
  WinogradWeight(const WeightArgs<float>& args, int64_t row_padding, int64_t col_padding)
      : args_(args),
        row_padding_(row_padding),
        col_padding_(col_padding),
        ins_(args.in_channels()),
        outs_(args.out_channels()),
        grid_(args.small.batch, args.small.size[1], args.small.size[2], kTiles),
        slices_(std::clamp<int64_t>(kMostElements / (kElements * ins_ * outs_), 1,
                                    std::min(grid_.blocks(), kMostSlices))),
        sums_stride_(ins_ * outs_ + winograd::kPadding),
        sums_(slices_ * kElements * sums_stride_) {}

  void run() const {
    // With few channels slices of the tiles are summed by one thread each; else all threads work on
    // a block.
    parallel_for(slices_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slice = begin; slice < end; ++slice) run_slice(slice);
    });
    parallel_for(outs_, std::max<int64_t>(1, 4096 / ins_), [&](int64_t begin, int64_t end) {
      for (int64_t out = begin; out < end; ++out)
        for (int64_t in = 0; in < ins_; in += kChannels) finish(out, in);
    });
  }

 private:
  static constexpr int64_t kTiles = 128, kMostSlices = 8, kMostElements = int64_t{4} << 20;

  float* sums(int64_t slice) const { return sums_.data() + slice * kElements * sums_stride_; }

  void run_slice(int64_t slice) const {
    const int64_t first = grid_.blocks() * slice / slices_,
                  last = grid_.blocks() * (slice + 1) / slices_;
    const int64_t read_stride = grid_.most_tiles() * ins_ + winograd::kPadding,
                  grad_stride = grid_.most_tiles() * outs_ + winograd::kPadding;
    const HostScratch<float> reads(kElements * read_stride), grads(kElements * grad_stride);
    for (int64_t block = first; block < last; ++block) {
      transform(block, {reads.data(), read_stride, 0}, {grads.data(), grad_stride, outs_});
      parallel_for(kElements, 1, [&](int64_t begin, int64_t end) {
        for (int64_t e = begin; e < end; ++e)
          block_.multiply({.m = outs_,
                           .n = ins_,
                           .k = grid_.tiles(block),
                           .a = {grads.data() + e * grad_stride, 1, outs_},
                           .b_packed = reads.data() + e * read_stride,
                           .out = sums(slice) + e * sums_stride_,
                           .out_row_stride = ins_,
                           .beta = block == first ? 0.f : 1.f,
                           .scratch = GemmScratch::of_this_thread().get<float>(
                               GemmScratch::Purpose::tile, block_.scratch)});
      });
    }
  }

  /// What a block's tiles read, in panels as pack_b makes them (each of its own width), and the
  /// gradients of their results.
  void transform(int64_t block, const winograd::Matrices& reads,
                 const winograd::Matrices& grads) const {
    parallel_for((ins_ + outs_) / kChannels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin * kChannels; c < end * kChannels; c += kChannels) {
        winograd::Matrices to = c < ins_ ? reads : grads;
        if (c < ins_) {
          const winograd::Panel panel(c, ins_);
          to.per_tile = panel.width;
          to.data += panel.first * grid_.tiles(block) + c - panel.first;
          winograd::transform_block<winograd::map_reads, 4>(grid_, block, args_.large, c,
                                                            -row_padding_, -col_padding_, to);
        } else {
          to.data += c - ins_;
          winograd::transform_block<winograd::map_result_grads, 2>(grid_, block, args_.small,
                                                                   c - ins_, 0, 0, to);
        }
      }
    });
  }

  /// The kernels from kChannels channels to one.
  void finish(int64_t out, int64_t in) const {
    Lanes summed[4][4], taps[3][3];
#pragma GCC unroll 16
    for (int e = 0; e < kElements; ++e) {
      const float* const from = sums(0) + e * sums_stride_ + out * ins_ + in;
      Lanes sum = load<Lanes>(from);
      for (int64_t slice = 1; slice < slices_; ++slice)
        sum += load<Lanes>(from + slice * kElements * sums_stride_);
      summed[e / 4][e % 4] = sum;
    }
    winograd::transform<winograd::map_kernel_grads>(summed, taps);
    const Strides& strides = args_.weight.strides;
    for (int64_t c = 0; c < kChannels; ++c) {
      float* const to = args_.weight.as<float>() + out * strides[0] + (in + c) * strides[1];
      for (int64_t t = 0; t < 9; ++t)
        to[t / 3 * strides[2] + t % 3 * strides[3]] = taps[t / 3][t % 3][c];
    }
  }

  const WeightArgs<float>& args_;
  int64_t row_padding_, col_padding_;
  const BlockKernels<float>& block_ = block_kernels<float>();
  int64_t ins_, outs_;
  winograd::Grid grid_;
  int64_t slices_, sums_stride_;
  HostScratch<float> sums_;
};

}  // namespace tensora::cpu::TENSORA_ISA

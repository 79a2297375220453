#pragma once

// Internal header
// Convolutions, and gradients of their inputs, by Note [Convolutions by Winograd].

#include "tensora/ops/conv/gather_product.h"
#include "tensora/ops/conv/winograd.h"

namespace tensora::cpu::TENSORA_ISA {

class WinogradProduct {
  using Lanes = winograd::Lanes;
  static constexpr int64_t kChannels = winograd::kChannels, kElements = winograd::kElements;

 public:
  /// Zeros before the first row and column of `args.in`; `flipped`: the kernel is turned round.
  struct Places {
    int64_t row_padding = 0, col_padding = 0;
    bool flipped = false;
  };

  WinogradProduct(const GatherArgs<float>& args, const Places& places)
      : args_(args),
        places_(places),
        ins_(args.in_channels()),
        outs_(args.out_channels()),
        depth_(ceil_div(ins_, ceil_div(ins_, block_.k_block))),
        kernel_stride_(ins_ * outs_ + winograd::kPadding),
        grid_(args.out.batch, args.out.size[1], args.out.size[2], kTiles),
        kernels_(kElements * kernel_stride_) {}

  void run() const {
    parallel_for(outs_ / kChannels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t out = begin; out < end; ++out) transform_kernels(out * kChannels);
    });
    // Many blocks: each by one thread. Few: all threads work on one.
    const int64_t blocks = grid_.blocks();
    parallel_for(blocks, blocks >= kManyBlocks ? 1 : blocks, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) run_block(block);
    });
  }

 private:
  static constexpr int64_t kTiles = 96, kManyBlocks = 8;
  static constexpr int64_t kKernels = 16;  // are gathered at once

  /// The kernels from all channels to kChannels channels, in panels as pack_b makes them.
  void transform_kernels(int64_t out) const {
    const winograd::Panel panel(out, outs_);
    float gathered[kKernels * 9 * kChannels];
    for (int64_t in = 0; in < ins_; ++in) {
      if (in % kKernels == 0) gather_kernels(out, in, std::min(kKernels, ins_ - in), gathered);
      const float* const from = gathered + in % kKernels * 9 * kChannels;
      Lanes taps[3][3], transformed[4][4];
#pragma GCC unroll 9
      for (int t = 0; t < 9; ++t)
        taps[t / 3][t % 3] = load<Lanes>(from + (places_.flipped ? 8 - t : t) * kChannels);
      winograd::transform<winograd::map_kernel>(taps, transformed);
      const int64_t first = in / depth_ * depth_, depth = std::min(depth_, ins_ - first);
      float* const to = kernels_.data() + first * outs_ + panel.first * depth +
                        (in - first) * panel.width + out - panel.first;
#pragma GCC unroll 16
      for (int e = 0; e < kElements; ++e) store(to + e * kernel_stride_, transformed[e / 4][e % 4]);
    }
  }

  /// `count` kernels to each of kChannels channels, channels inside.
  void gather_kernels(int64_t out, int64_t in, int64_t count, float* to) const {
    const auto& weight = args_.weight;
    const float* const from = weight.data + out * weight.out_stride + in * weight.in_stride;
    const float* lines[kChannels + 3];  // pack_lines wants to see three more
    const bool dense = weight.tap_stride[2] == 1 && weight.tap_stride[1] == 3;
    const int64_t at_once = dense && weight.in_stride == 9 ? count : 1;
    for (int64_t i = 0; i < count; i += at_once, to += at_once * 9 * kChannels) {
      for (int64_t c = 0; c < kChannels + 3; ++c)
        lines[c] = from + std::min(c, kChannels - 1) * weight.out_stride + i * weight.in_stride;
      if (dense) {
        pack_lines<float>(lines, at_once * 9, kChannels, to);
        continue;
      }
      for (int64_t t = 0; t < 9; ++t)
        for (int64_t c = 0; c < kChannels; ++c)
          to[t * kChannels + c] =
              lines[c][t / 3 * weight.tap_stride[1] + t % 3 * weight.tap_stride[2]];
    }
  }

  void run_block(int64_t block) const {
    const int64_t tiles = grid_.tiles(block);
    const int64_t source_stride = tiles * ins_ + winograd::kPadding,
                  result_stride = tiles * outs_ + winograd::kPadding;
    const HostScratch<float> source(kElements * source_stride), result(kElements * result_stride);
    parallel_for(ins_ / kChannels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin * kChannels; c < end * kChannels; c += kChannels)
        winograd::transform_block<winograd::map_reads, 4>(
            grid_, block, args_.in, c, -places_.row_padding, -places_.col_padding,
            {source.data() + c, source_stride, ins_});
    });
    parallel_for(kElements, 1, [&](int64_t begin, int64_t end) {
      for (int64_t e = begin; e < end; ++e)
        multiply(tiles, source.data() + e * source_stride, kernels_.data() + e * kernel_stride_,
                 result.data() + e * result_stride);
    });
    parallel_for(outs_ / kChannels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin * kChannels; c < end * kChannels; c += kChannels)
        transform_back(block, c, result.data() + c, result_stride);
    });
  }

  void multiply(int64_t tiles, const float* source, const float* kernels, float* result) const {
    BlockProduct<float> product = {.m = tiles,
                                   .n = outs_,
                                   .out = result,
                                   .out_row_stride = outs_,
                                   .scratch = GemmScratch::of_this_thread().get<float>(
                                       GemmScratch::Purpose::tile, block_.scratch)};
    for (int64_t first = 0; first < ins_; first += depth_) {
      product.k = std::min(depth_, ins_ - first);
      product.a = {source + first, ins_, 1};
      product.b_packed = kernels + first * outs_;
      block_.multiply(product);
      product.beta = 1;
    }
  }

  void transform_back(int64_t block, int64_t channel, const float* sums, int64_t stride) const {
    Lanes bias{};
    if (args_.bias)
      for (int64_t c = 0; c < kChannels; ++c)
        bias[c] = args_.bias[(channel + c) * args_.bias_stride];
    grid_.each_image(block, [&](int64_t image, int64_t first, int64_t count, int64_t before) {
      const int64_t across = grid_.across();
      const winograd::Window window{image, 2 * first, 0, 2 * count, 2 * across};
      float* const pixels = GemmScratch::of_this_thread().get<float>(
          GemmScratch::Purpose::dense_a, window.rows * window.cols * kChannels);
      for (int64_t tile = 0; tile < count * across; ++tile) {
        const int64_t y = tile / across * 2, x = tile % across * 2;
        const float* const from = sums + (before + tile) * outs_;
        Lanes summed[4][4], results[2][2];
#pragma GCC unroll 16
        for (int e = 0; e < kElements; ++e) summed[e / 4][e % 4] = load<Lanes>(from + e * stride);
        winograd::transform<winograd::map_results>(summed, results);
        for (int i = 0; i < 2; ++i)
          for (int j = 0; j < 2; ++j)
            store(pixels + ((y + i) * window.cols + x + j) * kChannels, results[i][j] + bias);
      }
      winograd::scatter(pixels, window, channel, args_.out);
    });
  }

  const GatherArgs<float>& args_;
  Places places_;
  const BlockKernels<float>& block_ = block_kernels<float>();
  int64_t ins_, outs_, depth_, kernel_stride_;
  winograd::Grid grid_;
  HostScratch<float> kernels_;
};

}  // namespace tensora::cpu::TENSORA_ISA

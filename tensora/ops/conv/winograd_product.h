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
    const int64_t width = block_.panel_width;
    parallel_for(outs_ / width, 1, [&](int64_t begin, int64_t end) {
      for (int64_t out = begin * width; out < end * width; out += kChannels) transform_kernels(out);
    });
    // Many blocks: each by one thread. Few: all threads work on one.
    const int64_t blocks = grid_.blocks();
    parallel_for(blocks, blocks >= kManyBlocks ? 1 : blocks, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) run_block(block);
    });
  }

 private:
  static constexpr int64_t kTiles = 96, kManyBlocks = 8;

  /// The kernels from all channels to kChannels channels, in panels as pack_b makes them.
  void transform_kernels(int64_t out) const {
    const auto& weight = args_.weight;
    const int64_t width = block_.panel_width, panel = out / width * width;
    for (int64_t in = 0; in < ins_; ++in) {
      Lanes taps[3][3], transformed[4][4];
      for (int64_t c = 0; c < kChannels; ++c) {
        const float* const from =
            weight.data + (out + c) * weight.out_stride + in * weight.in_stride;
        for (int64_t t = 0; t < 9; ++t) {
          const int64_t at = places_.flipped ? 8 - t : t;
          taps[t / 3][t % 3][c] =
              from[at / 3 * weight.tap_stride[1] + at % 3 * weight.tap_stride[2]];
        }
      }
      winograd::transform<winograd::map_kernel>(taps, transformed);
      const int64_t first = in / depth_ * depth_, depth = std::min(depth_, ins_ - first);
      float* const to =
          kernels_.data() + first * outs_ + panel * depth + (in - first) * width + out - panel;
      for (int64_t e = 0; e < kElements; ++e)
        store(to + e * kernel_stride_, transformed[e / 4][e % 4]);
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

#pragma once

// Internal header
// The gradient of the weight of such a convolution (direct.h).

#include "tensora/ops/conv/direct.h"
#include "tensora/ops/conv/weight_product.h"

namespace tensora::cpu::TENSORA_ISA {

/// Sums over slices of the images or lines, added in order at the end.
template <class T>
class DirectWeight {
  using C = gemm_compute_t<T>;
  using Purpose = GemmScratch::Purpose;

 public:
  DirectWeight(const WeightArgs<T>& args, const GatherPart& part)
      : args_(args),
        part_(part),
        layout_(part),
        taps_(part.taps()),
        ins_(args.in_channels()),
        outs_(args.out_channels()),
        pixels_(args.large.channels_inside()),
        blocks_(pixels_ ? (args.groups + kGroupBlock - 1) / kGroupBlock : args.groups),
        units_(args.large.batch * (pixels_ ? part.axis[0].count * part.axis[1].count : 1)),
        slices_(std::clamp<int64_t>(kTasks / blocks_, 1, std::max<int64_t>(1, units_))),
        sums_(slices_ * elements()) {
    for (int64_t t = 0; t < taps_; ++t) list_.push_back(taps_at(part, t));
  }

  void run() const {
    std::fill_n(sums_.data(), slices_ * elements(), C(0));
    parallel_for(blocks_ * slices_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t slice = task % slices_;
        for (int64_t unit = units_ * slice / slices_; unit < units_ * (slice + 1) / slices_; ++unit)
          pixels_ ? add_line(task / slices_, slice, unit) : add_planes(task / slices_, slice, unit);
      }
    });
    finish();
  }

 private:
  static constexpr int64_t kTasks = 32;

  int64_t elements() const { return args_.groups * outs_ * ins_ * taps_; }
  /// out channel, in channel, tap, group
  C* sums(int64_t slice, int64_t o, int64_t i, int64_t t) const {
    return sums_.data() + (((slice * outs_ + o) * ins_ + i) * taps_ + t) * args_.groups;
  }

  void add_planes(int64_t group, int64_t slice, int64_t image) const {
    GemmScratch& scratch = GemmScratch::of_this_thread();
    C* const copies = scratch.get<C>(Purpose::dense_a, layout_.copies());
    C* const grad = scratch.get<C>(Purpose::sums, layout_.length());
    const Volumes<const T>& small = args_.small;
    for (int64_t i = 0; i < ins_; ++i) {
      layout_.fill(args_.large, image, group * ins_ + i, copies);
      for (int64_t o = 0; o < outs_; ++o) {
        std::fill_n(grad, layout_.length(), C(0));
        const T* const from =
            small.data + image * small.batch_stride + (group * outs_ + o) * small.channel_stride;
        for (int64_t d = 0; d < small.size[0]; ++d)
          for (int64_t h = 0; h < small.size[1]; ++h)
            load_run(from + d * small.stride[0] + h * small.stride[1], small.stride[2],
                     small.size[2], grad + layout_.line(d, h));
        for (int64_t t = 0; t < taps_; ++t)
          sums(slice, o, i, t)[group] += flat_product(
              grad, copies + layout_.distance(list_[static_cast<size_t>(t)]), layout_.length());
      }
    }
  }

  static C flat_product(const C* a, const C* b, int64_t length) {
    Sums<C, kFourVectors<C>> sums;
    sums.set(C(0));
    for (int64_t i = 0; i < length; i += kFourVectors<C>) sums.add(a + i, b + i);
    C lanes[kFourVectors<C>];
    sums.put(lanes);
    C total = 0;
    for (const C lane : lanes) total += lane;
    return total;
  }

  /// Some channels of the pixels of a line in the compute type: themselves, or a copy.
  struct Pixels {
    const C* data;
    int64_t step;  // from pixel to pixel

    Pixels(const T* from, int64_t pixel_step, int64_t channel_step, int64_t pixels, int64_t n,
           std::vector<C>& storage) {
      if constexpr (std::is_same_v<T, C>) {
        data = from;
        step = pixel_step;
        if (channel_step == 1) return;
      }
      storage.resize(static_cast<size_t>(pixels * kGroupBlock));
      for (int64_t i = 0; i < pixels; ++i)
        load_tile<T, C>(from + i * pixel_step, channel_step, n, storage.data() + i * kGroupBlock);
      data = storage.data();
      step = kGroupBlock;
    }
  };

  void add_line(int64_t block, int64_t slice, int64_t line) const {
    const int64_t first = block * kGroupBlock, n = std::min(kGroupBlock, args_.groups - first);
    const int64_t heights = part_.axis[1].count, depths = part_.axis[0].count;
    const int64_t image = line / heights / depths, d = line / heights % depths, h = line % heights;
    const Volumes<const T>&small = args_.small, &large = args_.large;
    std::vector<C> grad_storage, in_storage;
    for (int64_t o = 0; o < outs_; ++o) {
      const Pixels grad(small.data + image * small.batch_stride + d * small.stride[0] +
                            h * small.stride[1] + (first * outs_ + o) * small.channel_stride,
                        small.stride[2], outs_ * small.channel_stride, small.size[2], n,
                        grad_storage);
      int64_t row = 0;  // of the kernel
      for (const Tap& td : part_.axis[0].taps)
        for (const Tap& th : part_.axis[1].taps) {
          const int64_t tap = row++ * static_cast<int64_t>(part_.axis[2].taps.size());
          if (d < td.begin || d >= td.end || h < th.begin || h >= th.end) continue;
          for (int64_t i = 0; i < ins_; ++i) {
            const Pixels in(large.data + image * large.batch_stride +
                                (d * part_.axis[0].in_step + td.offset) * large.stride[0] +
                                (h * part_.axis[1].in_step + th.offset) * large.stride[1] +
                                (first * ins_ + i) * large.channel_stride,
                            large.stride[2], ins_ * large.channel_stride, large.size[2], n,
                            in_storage);
            add_row(slice, o, i, tap, first, grad, in);
          }
        }
    }
  }

  /// The taps of one row of the kernel.
  void add_row(int64_t slice, int64_t o, int64_t i, int64_t tap, int64_t first, const Pixels& grad,
               const Pixels& in) const {
    const GatherAxis& axis = part_.axis[2];
    for (const Tap& tw : axis.taps) {
      C* const total = sums(slice, o, i, tap++) + first;
      const C* const x = in.data + tw.offset * in.step;
      const int64_t step = axis.in_step * in.step;
      add_pixels(total, grad, x, step, tw, std::min(kGroupBlock, args_.groups - first));
    }
  }

  static void add_pixels(C* total, const Pixels& grad, const C* x, int64_t step, const Tap& tap,
                         int64_t n) {
    C block[kGroupBlock] = {};
    if (n == kGroupBlock) {
      Sums<C, kGroupBlock> sums;
      sums.set(C(0));
      for (int64_t w = tap.begin; w < tap.end; ++w)
        sums.add(grad.data + w * grad.step, x + w * step);
      sums.put(block);
    } else {
      for (int64_t w = tap.begin; w < tap.end; ++w)
        for (int64_t c = 0; c < n; ++c) block[c] += grad.data[w * grad.step + c] * x[w * step + c];
    }
    for (int64_t c = 0; c < n; ++c) total[c] += block[c];
  }

  void finish() const {
    const View& weight = args_.weight;
    parallel_for(args_.groups, 64, [&](int64_t begin, int64_t end) {
      for (int64_t o = 0; o < outs_; ++o)
        for (int64_t i = 0; i < ins_; ++i)
          for (int64_t t = 0; t < taps_; ++t)
            for (int64_t g = begin; g < end; ++g) {
              C total = sums(0, o, i, t)[g];
              for (int64_t slice = 1; slice < slices_; ++slice) total += sums(slice, o, i, t)[g];
              weight.as<T>()[(g * outs_ + o) * weight.strides[0] + i * weight.strides[1] +
                             args_.tap_offset(list_[static_cast<size_t>(t)])] =
                  store_element<T>(total);
            }
    });
  }

  const WeightArgs<T>& args_;
  const GatherPart& part_;
  FlatLayout layout_;
  int64_t taps_, ins_, outs_;
  bool pixels_;
  int64_t blocks_, units_, slices_;
  HostScratch<C> sums_;
  std::vector<Taps> list_;
};

}  // namespace tensora::cpu::TENSORA_ISA

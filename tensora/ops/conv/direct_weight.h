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
    C* const in_storage = scratch.get<C>(Purpose::dense_a, Plane<T, C>::scratch(args_.large) + 1);
    C* const grad_storage = scratch.get<C>(Purpose::sums, Plane<T, C>::scratch(args_.small) + 1);
    for (int64_t o = 0; o < outs_; ++o) {
      const Plane<T, C> grad(args_.small, image, group * outs_ + o, grad_storage);
      for (int64_t i = 0; i < ins_; ++i) {
        const Plane<T, C> in(args_.large, image, group * ins_ + i, in_storage);
        for (int64_t t = 0; t < taps_; ++t)
          sums(slice, o, i, t)[group] += product(grad, in, list_[static_cast<size_t>(t)]);
      }
    }
  }

  static constexpr int kLineLanes = 16;  // sums side by side, added at the end of a plane

  static void add_products(C (&lanes)[kLineLanes], const C* x, int64_t step, const C* g,
                           int64_t grad_step, int64_t n) {
    int64_t j = 0;
    if (step == 1 && grad_step == 1)
      for (; j + kLineLanes <= n; j += kLineLanes) {
#pragma omp simd
        for (int l = 0; l < kLineLanes; ++l) lanes[l] += x[j + l] * g[j + l];
      }
    for (int l = 0; j < n; ++j, l = (l + 1) % kLineLanes)
      lanes[l] += x[j * step] * g[j * grad_step];
  }

  /// The sum over one plane of grad times what a tap reads.
  C product(const Plane<T, C>& grad, const Plane<T, C>& in, const Taps& taps) const {
    const auto& axis = part_.axis;
    const int64_t first = taps.w->begin, n = taps.w->end - first;
    const int64_t step = axis[2].in_step * in.stride[2], grad_step = grad.stride[2];
    C lanes[kLineLanes] = {};
    if (n <= 0) return C(0);
    for (int64_t d = taps.d->begin; d < taps.d->end; ++d) {
      for (int64_t h = taps.h->begin; h < taps.h->end; ++h) {
        const C* const x = in.data + (d * axis[0].in_step + taps.d->offset) * in.stride[0] +
                           (h * axis[1].in_step + taps.h->offset) * in.stride[1] +
                           (first * axis[2].in_step + taps.w->offset) * in.stride[2];
        const C* const g = grad.data + d * grad.stride[0] + h * grad.stride[1] + first * grad_step;
        add_products(lanes, x, step, g, grad_step, n);
      }
    }
    for (int l = 1; l < kLineLanes; ++l) lanes[0] += lanes[l];
    return lanes[0];
  }

  void add_line(int64_t block, int64_t slice, int64_t line) const {
    const int64_t first = block * kGroupBlock, n = std::min(kGroupBlock, args_.groups - first);
    const int64_t heights = part_.axis[1].count, depths = part_.axis[0].count;
    const Volumes<const T>&small = args_.small, &large = args_.large;
    Run at = {line / heights / depths, line / heights % depths, line % heights, 0, 1, 0};
    C grad_storage[kGroupBlock], in_storage[kGroupBlock];
    for (; at.w < part_.axis[2].count; ++at.w) {
      const T* const pixel = small.data + at.image * small.batch_stride + at.d * small.stride[0] +
                             at.h * small.stride[1] + at.w * small.stride[2];
      for (int64_t o = 0; o < outs_; ++o) {
        const C* const grad =
            load_channels<T, C>(pixel + (first * outs_ + o) * small.channel_stride,
                                outs_ * small.channel_stride, n, grad_storage);
        for (int64_t t = 0; t < taps_; ++t) {
          const Reads reads = reads_of(large, part_, at, list_[static_cast<size_t>(t)]);
          if (reads.inside == 0) continue;
          for (int64_t i = 0; i < ins_; ++i) {
            const C* const x = load_channels<T, C>(
                large.data + reads.from + (first * ins_ + i) * large.channel_stride,
                ins_ * large.channel_stride, n, in_storage);
            C* const total = sums(slice, o, i, t) + first;
#pragma omp simd
            for (int64_t g = 0; g < n; ++g) total[g] += grad[g] * x[g];
          }
        }
      }
    }
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
  int64_t taps_, ins_, outs_;
  bool pixels_;
  int64_t blocks_, units_, slices_;
  Buffer<C> sums_;
  std::vector<Taps> list_;
};

}  // namespace tensora::cpu::TENSORA_ISA

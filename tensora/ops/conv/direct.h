#pragma once

// Internal header
// Convolutions whose groups have a single channel on one side, depthwise ones above all: a matrix
// product would be one row high. Every tap is a multiplication of two vectors: of neighbours along
// the innermost spatial dim if the channels lie far apart, else of the groups' channels.

#include "tensora/ops/conv/gather_product.h"

namespace tensora::cpu::TENSORA_ISA {

/// One channel of one image in the compute type: itself, or a dense copy in `storage`.
template <class T, class C>
struct Plane {
  const C* data = nullptr;
  std::array<int64_t, kSpatial> stride = {};

  static int64_t scratch(const Volumes<const T>& in) {
    return std::is_same_v<T, C> ? 0 : in.positions();
  }
  Plane(const Volumes<const T>& in, int64_t image, int64_t channel, [[maybe_unused]] C* storage) {
    const T* const from = in.data + image * in.batch_stride + channel * in.channel_stride;
    if constexpr (std::is_same_v<T, C>) {
      data = from;
      stride = in.stride;
    } else {
      for (int64_t d = 0, line = 0; d < in.size[0]; ++d)
        for (int64_t h = 0; h < in.size[1]; ++h, ++line)
          load_tile<T, C>(from + d * in.stride[0] + h * in.stride[1], in.stride[2], in.size[2],
                          storage + line * in.size[2]);
      data = storage;
      stride = {in.size[1] * in.size[2], in.size[2], 1};
    }
  }
};

/// row[j] += factor * from[j * step]
template <class C>
void add_scaled(C* row, const C* from, int64_t step, int64_t n, C factor) {
  if (step == 1) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) row[j] += factor * from[j];
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) row[j] += factor * from[j * step];
  }
}

/// What all rows (d, h) of a part read through a pair of taps of the two outer dims.
template <class Body>
void each_outer_tap(const GatherPart& part, int64_t d, int64_t h, Body&& body) {
  for (const Tap& depth : part.axis[0].taps) {
    if (d < depth.begin || d >= depth.end) continue;
    for (const Tap& height : part.axis[1].taps) {
      if (h < height.begin || h >= height.end) continue;
      body(depth, height, d * part.axis[0].in_step + depth.offset,
           h * part.axis[1].in_step + height.offset);
    }
  }
}

template <class T>
void direct_rows(const GatherArgs<T>& args, const GatherPart& part) {
  using C = gemm_compute_t<T>;
  using Purpose = GemmScratch::Purpose;
  const int64_t ins = args.in_channels(), outs = args.out_channels();
  const int64_t width = part.axis[2].count, step_in = part.axis[2].in_step;
  const int64_t work = part.positions() * part.taps() * ins;
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, work));
  parallel_for(args.out.batch * args.out.channels, grain, [&](int64_t begin, int64_t end) {
    GemmScratch& scratch = GemmScratch::of_this_thread();
    const int64_t plane_size = Plane<T, C>::scratch(args.in);
    C* const row = scratch.get<C>(Purpose::sums, width);
    C* const storage = scratch.get<C>(Purpose::dense_a, ins * plane_size + 1);
    std::vector<Plane<T, C>> planes;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / args.out.channels, channel = task % args.out.channels;
      const int64_t group = channel / outs;
      planes.clear();
      for (int64_t c = 0; c < ins; ++c)
        planes.emplace_back(args.in, image, group * ins + c, storage + c * plane_size);
      const T* const weight = args.weight.data + group * args.weight.group_stride +
                              channel % outs * args.weight.out_stride;
      const C bias = args.bias ? convert_element<C>(args.bias[channel * args.bias_stride]) : C(0);
      for (int64_t d = 0; d < part.axis[0].count; ++d) {
        for (int64_t h = 0; h < part.axis[1].count; ++h) {
          std::fill_n(row, width, bias);
          each_outer_tap(part, d, h, [&](const Tap& td, const Tap& th, int64_t at_d, int64_t at_h) {
            for (const Tap& tw : part.axis[2].taps) {
              if (tw.begin >= tw.end) continue;
              for (int64_t c = 0; c < ins; ++c) {
                const Plane<T, C>& plane = planes[static_cast<size_t>(c)];
                const C* const from = plane.data + at_d * plane.stride[0] + at_h * plane.stride[1] +
                                      (tw.begin * step_in + tw.offset) * plane.stride[2];
                add_scaled<C>(
                    row + tw.begin, from, step_in * plane.stride[2], tw.end - tw.begin,
                    convert_element<C>(
                        weight[c * args.weight.in_stride + args.weight.offset({&td, &th, &tw})]));
              }
            }
          });
          const auto at = [&](size_t dim, int64_t j) {
            return (part.axis[dim].out_start + j * part.axis[dim].out_step) * args.out.stride[dim];
          };
          T* const to = args.out.data + image * args.out.batch_stride +
                        channel * args.out.channel_stride + at(0, d) + at(1, h) + at(2, 0);
          store_tile<T, C>(row, to, part.axis[2].out_step * args.out.stride[2], width);
        }
      }
    }
  });
}

inline constexpr int64_t kGroupBlock = 64;  // groups whose sums stay in the L1 cache

/// Channels first, first + step, … of one pixel in the compute type.
template <class T, class C>
const C* load_channels(const T* from, int64_t step, int64_t n, C* storage) {
  if constexpr (std::is_same_v<T, C>)
    if (step == 1) return from;
  load_tile<T, C>(from, step, n, storage);
  return storage;
}

/// The weight as [out channel of the group][in channel of the group][tap][group].
template <class T, class C>
void weight_by_group(const GatherArgs<T>& args, const GatherPart& part, C* to) {
  const int64_t taps = part.taps();
  for (int64_t o = 0; o < args.out_channels(); ++o)
    for (int64_t i = 0; i < args.in_channels(); ++i)
      for (int64_t t = 0; t < taps; ++t)
        for (int64_t g = 0; g < args.groups; ++g)
          *to++ = convert_element<C>(
              args.weight.data[g * args.weight.group_stride + o * args.weight.out_stride +
                               i * args.weight.in_stride + args.weight.offset(taps_at(part, t))]);
}

template <class T>
class DirectPixels {
  using C = gemm_compute_t<T>;

 public:
  DirectPixels(const GatherArgs<T>& args, const GatherPart& part)
      : args_(args),
        part_(part),
        taps_(part.taps()),
        weight_(args.out_channels() * args.in_channels() * taps_ * args.groups) {
    weight_by_group<T, C>(args, part, weight_.data());
    for (int64_t t = 0; t < taps_; ++t) list_.push_back(taps_at(part, t));
  }

  void run() const {
    const int64_t lines = args_.out.batch * part_.axis[0].count * part_.axis[1].count;
    const int64_t work = part_.axis[2].count * taps_ * args_.groups;
    parallel_for(lines, std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, work)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t line = begin; line < end; ++line) run_line(line);
                 });
  }

 private:
  void run_line(int64_t line) const {
    const int64_t heights = part_.axis[1].count, depths = part_.axis[0].count;
    const Run whole = {line / heights / depths, line / heights % depths, line % heights, 0, 1, 0};
    for (int64_t w = 0; w < part_.axis[2].count; ++w) {
      Run position = whole;
      position.w = w;
      for (int64_t o = 0; o < args_.out_channels(); ++o)
        for (int64_t g = 0; g < args_.groups; g += kGroupBlock) run_block(position, o, g);
    }
  }

  void run_block(const Run& at, int64_t o, int64_t first) const {
    const int64_t n = std::min(kGroupBlock, args_.groups - first);
    const int64_t ins = args_.in_channels(), outs = args_.out_channels();
    const Volumes<T>& out = args_.out;
    C sums[kGroupBlock], storage[kGroupBlock];
    for (int64_t g = 0; g < n; ++g)
      sums[g] = args_.bias
                    ? convert_element<C>(args_.bias[((first + g) * outs + o) * args_.bias_stride])
                    : C(0);
    for (int64_t t = 0; t < taps_; ++t) {
      const Reads reads = reads_of(args_.in, part_, at, list_[static_cast<size_t>(t)]);
      if (reads.inside == 0) continue;
      for (int64_t i = 0; i < ins; ++i) {
        const C* const weight = weight_.data() + ((o * ins + i) * taps_ + t) * args_.groups + first;
        const C* const from = load_channels<T, C>(
            args_.in.data + reads.from + (first * ins + i) * args_.in.channel_stride,
            ins * args_.in.channel_stride, n, storage);
#pragma omp simd
        for (int64_t g = 0; g < n; ++g) sums[g] += weight[g] * from[g];
      }
    }
    const auto place = [&](size_t dim, int64_t j) {
      return (part_.axis[dim].out_start + j * part_.axis[dim].out_step) * out.stride[dim];
    };
    T* const to = out.data + at.image * out.batch_stride + place(0, at.d) + place(1, at.h) +
                  place(2, at.w) + (first * outs + o) * out.channel_stride;
    store_tile<T, C>(sums, to, outs * out.channel_stride, n);
  }

  const GatherArgs<T>& args_;
  const GatherPart& part_;
  int64_t taps_;
  Buffer<C> weight_;
  std::vector<Taps> list_;
};

}  // namespace tensora::cpu::TENSORA_ISA

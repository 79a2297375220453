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

/// The same for kTaps factors, each with a place of its own, in one pass over the row.
template <int kTaps, class C>
void add_scaled(C* row, const C* const* from, int64_t step, int64_t n, const C* factors) {
  if (step == 1) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      C sum = row[j];
#pragma GCC unroll 8
      for (int t = 0; t < kTaps; ++t) sum += factors[t] * from[t][j];
      row[j] = sum;
    }
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      C sum = row[j];
#pragma GCC unroll 8
      for (int t = 0; t < kTaps; ++t) sum += factors[t] * from[t][j * step];
      row[j] = sum;
    }
  }
}

/// The taps of one row of a kernel: where all of them read inside they are applied together.
template <class C>
class TapRow {
 public:
  static constexpr size_t kMost = 8;

  /// `from` is what position 0 reads; it may lie outside of the row.
  void add(const Tap& tap, const C* from, C factor) {
    if (tap.begin >= tap.end) return;
    taps_[count_] = {tap.begin, tap.end};
    from_[count_] = from;
    factors_[count_++] = factor;
  }
  bool full() const { return count_ == kMost; }

  void apply(C* row, int64_t step) {
    int64_t begin = 0, end = INT64_MAX;
    for (size_t t = 0; t < count_; ++t) {
      begin = std::max(begin, taps_[t].begin);
      end = std::min(end, taps_[t].end);
    }
    for (size_t t = 0; t < count_; ++t) {
      const auto part = [&](int64_t first, int64_t last) {
        if (first < last)
          add_scaled(row + first, from_[t] + first * step, step, last - first, factors_[t]);
      };
      if (begin >= end) {
        part(taps_[t].begin, taps_[t].end);
      } else {
        part(taps_[t].begin, begin);
        part(end, taps_[t].end);
        from_[t] += begin * step;
      }
    }
    if (begin < end) apply_all(row + begin, step, end - begin);
    count_ = 0;
  }

 private:
  struct Span {
    int64_t begin, end;
  };

  void apply_all(C* row, int64_t step, int64_t n) const {
    size_t t = 0;
    for (; t + 4 < count_ + 1; t += 4) add_scaled<4>(row, from_ + t, step, n, factors_ + t);
    if (count_ - t == 3) add_scaled<3>(row, from_ + t, step, n, factors_ + t);
    if (count_ - t == 2) add_scaled<2>(row, from_ + t, step, n, factors_ + t);
    if (count_ - t == 1) add_scaled<1>(row, from_ + t, step, n, factors_ + t);
  }

  Span taps_[kMost];
  const C* from_[kMost];
  C factors_[kMost];
  size_t count_ = 0;
};

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
    TapRow<C> taps;
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
            for (int64_t c = 0; c < ins; ++c) {
              const Plane<T, C>& plane = planes[static_cast<size_t>(c)];
              const C* const line = plane.data + at_d * plane.stride[0] + at_h * plane.stride[1];
              const int64_t step = step_in * plane.stride[2];
              for (const Tap& tw : part.axis[2].taps) {
                taps.add(
                    tw, line + tw.offset * plane.stride[2],
                    convert_element<C>(
                        weight[c * args.weight.in_stride + args.weight.offset({&td, &th, &tw})]));
                if (taps.full()) taps.apply(row, step);
              }
              taps.apply(row, step);
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

inline constexpr int64_t kGroupBlock = 32;  // groups whose sums stay in registers

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
  /// A tap that reads inside from `begin` to `end`; position 0 would read at `from`.
  struct Read {
    int64_t tap, from, begin, end;
  };

  void run_line(int64_t line) const {
    const int64_t heights = part_.axis[1].count, depths = part_.axis[0].count;
    const Run start = {line / heights / depths, line / heights % depths, line % heights, 0, 1, 0};
    const std::vector<Read> reads = reads_of_line(start);
    int64_t begin = 0, end = part_.axis[2].count;  // where all of them read inside
    for (const Read& read : reads) {
      begin = std::max(begin, read.begin);
      end = std::min(end, read.end);
    }
    std::vector<Read> some;
    Run at = start;
    for (; at.w < part_.axis[2].count; ++at.w) {
      const bool all = at.w >= begin && at.w < end;
      if (!all) {
        some.clear();
        for (const Read& read : reads)
          if (at.w >= read.begin && at.w < read.end) some.push_back(read);
      }
      run_position(at, all ? reads : some);
    }
  }

  std::vector<Read> reads_of_line(const Run& start) const {
    const auto& axis = part_.axis;
    std::vector<Read> reads;
    for (int64_t t = 0; t < taps_; ++t) {
      const Taps& taps = list_[static_cast<size_t>(t)];
      if (start.d < taps.d->begin || start.d >= taps.d->end || start.h < taps.h->begin ||
          start.h >= taps.h->end)
        continue;
      const int64_t from = start.image * args_.in.batch_stride +
                           (start.d * axis[0].in_step + taps.d->offset) * args_.in.stride[0] +
                           (start.h * axis[1].in_step + taps.h->offset) * args_.in.stride[1] +
                           taps.w->offset * args_.in.stride[2];
      reads.push_back({t, from, taps.w->begin, taps.w->end});
    }
    return reads;
  }

  void run_position(const Run& at, std::span<const Read> reads) const {
    for (int64_t o = 0; o < args_.out_channels(); ++o) {
      int64_t g = 0;
      for (; g + kGroupBlock <= args_.groups; g += kGroupBlock)
        run_block(at, reads, o, g, std::integral_constant<int64_t, kGroupBlock>());
      if (g < args_.groups) run_block(at, reads, o, g, args_.groups - g);
    }
  }

  /// `count` is a constant for whole blocks, whose sums then stay in registers.
  template <class Count>
  void run_block(const Run& at, std::span<const Read> reads, int64_t o, int64_t first,
                 Count count) const {
    const int64_t n = std::min(kGroupBlock, args_.groups - first);  // not a constant to store_tile
    const int64_t ins = args_.in_channels(), outs = args_.out_channels();
    const Volumes<T>& out = args_.out;
    const int64_t position = at.w * part_.axis[2].in_step * args_.in.stride[2];
    C sums[kGroupBlock], storage[kGroupBlock];
    for (int64_t g = 0; g < n; ++g)
      sums[g] = args_.bias
                    ? convert_element<C>(args_.bias[((first + g) * outs + o) * args_.bias_stride])
                    : C(0);
    for (const Read& read : reads) {
      for (int64_t i = 0; i < ins; ++i) {
        const C* const weight =
            weight_.data() + ((o * ins + i) * taps_ + read.tap) * args_.groups + first;
        const C* const from = load_channels<T, C>(
            args_.in.data + read.from + position + (first * ins + i) * args_.in.channel_stride,
            ins * args_.in.channel_stride, n, storage);
#pragma omp simd
        for (int64_t g = 0; g < static_cast<int64_t>(count); ++g) sums[g] += weight[g] * from[g];
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

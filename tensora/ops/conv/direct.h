#pragma once

// Internal header
// Convolutions whose groups have a single channel on one side, depthwise ones above all: a matrix
// product would be one row high. Every tap is a multiplication of two vectors: of neighbours along
// the innermost spatial dim if the channels lie far apart, else of the groups' channels.

#include "tensora/ops/conv/gather_product.h"

namespace tensora::cpu::TENSORA_ISA {

// Note [Flat planes]
// A channel is copied, with the zeros around it, so that the lines of the copy are as far apart as
// those of the result are in a buffer of its own. Then a tap is a constant distance: the whole
// plane is computed as one long line, result[i] = sum over taps of w[t] * copy[i + distance[t]],
// and what lies between the lines is dropped. With a stride, every remainder modulo the stride has
// a copy of its own.
class FlatLayout {
 public:
  static constexpr int64_t kTogether = 64;  // elements that are computed together, at most

  explicit FlatLayout(const GatherPart& part) : part_(part) {
    for (size_t d = 0; d < kSpatial; ++d) {
      const GatherAxis& a = part.axis[d];
      if (a.taps.empty()) continue;
      int64_t most = first_[d] = a.taps.front().offset;
      for (const Tap& tap : a.taps) {
        first_[d] = std::min(first_[d], tap.offset);
        most = std::max(most, tap.offset);
      }
      extent_[d] = a.count + (most - first_[d]) / a.in_step;
    }
    plane_ = extent_[0] * extent_[1] * extent_[2] + 2 * kTogether;
  }

  /// Elements of all copies of a channel, and of the result.
  int64_t copies() const { return plane_ * steps(0) * steps(1) * steps(2); }
  int64_t length() const {
    const int64_t used =
        ((part_.axis[0].count - 1) * extent_[1] + part_.axis[1].count - 1) * extent_[2] +
        part_.axis[2].count;
    return (used + kTogether - 1) / kTogether * kTogether;
  }
  /// Where a line of the result begins.
  int64_t line(int64_t d, int64_t h) const { return (d * extent_[1] + h) * extent_[2]; }

  int64_t distance(const Taps& taps) const {
    const Tap* const tap[] = {taps.d, taps.h, taps.w};
    int64_t copy = 0, place = 0;
    for (size_t d = 0; d < kSpatial; ++d) {
      const int64_t ahead = tap[d]->offset - first_[d];
      copy = copy * steps(d) + ahead % steps(d);
      place = place * extent_[d] + ahead / steps(d);
    }
    return copy * plane_ + place;
  }

  template <class T, class C>
  void fill(const Volumes<const T>& in, int64_t image, int64_t channel, C* to) const {
    const T* const from = in.data + image * in.batch_stride + channel * in.channel_stride;
    for (int64_t d = 0; d < steps(0); ++d)
      for (int64_t h = 0; h < steps(1); ++h)
        for (int64_t w = 0; w < steps(2); ++w, to += plane_) fill_copy(in, from, {d, h, w}, to);
  }

 private:
  int64_t steps(size_t d) const { return part_.axis[d].in_step; }

  template <class T, class C>
  void fill_copy(const Volumes<const T>& in, const T* from, std::array<int64_t, kSpatial> rest,
                 C* to) const {
    const auto place = [&](size_t d, int64_t i) { return first_[d] + rest[d] + i * steps(d); };
    // The elements i of a line for which 0 <= place(2, i) < size.
    const auto first_from = [&](int64_t index) {
      const int64_t missing = index - place(2, 0);
      return missing <= 0 ? 0 : std::min(extent_[2], (missing + steps(2) - 1) / steps(2));
    };
    const int64_t begin = first_from(0), end = std::max(begin, first_from(in.size[2]));
    for (int64_t d = 0; d < extent_[0]; ++d)
      for (int64_t h = 0; h < extent_[1]; ++h, to += extent_[2]) {
        const int64_t at_d = place(0, d), at_h = place(1, h);
        if (at_d < 0 || at_d >= in.size[0] || at_h < 0 || at_h >= in.size[1] || begin == end) {
          std::fill_n(to, extent_[2], C(0));
          continue;
        }
        const T* const line = from + at_d * in.stride[0] + at_h * in.stride[1];
        std::fill_n(to, begin, C(0));
        load_run(line + place(2, begin) * in.stride[2], steps(2) * in.stride[2], end - begin,
                 to + begin);
        std::fill_n(to + end, extent_[2] - end, C(0));
      }
    std::fill_n(to, 2 * kTogether, C(0));
  }

  const GatherPart& part_;
  std::array<int64_t, kSpatial> first_ = {}, extent_ = {1, 1, 1};
  int64_t plane_ = 0;
};

/// N numbers as vectors that stay in registers; N is a multiple of a vector's width.
template <class C, int64_t N>
struct Sums {
  static constexpr int kWidth = kLanes<C>, kVectors = static_cast<int>(N) / kWidth;
  Vector<C> vectors[kVectors];

  [[gnu::always_inline]] void set(C value) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) vectors[v] = Vector<C>{} + value;
  }
  /// += factor * x, factor a number or as many numbers
  [[gnu::always_inline]] void add(C factor, const C* x) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) vectors[v] += factor * load<Vector<C>>(x + v * kWidth);
  }
  [[gnu::always_inline]] void add(const C* factors, const C* x) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v)
      vectors[v] += load<Vector<C>>(factors + v * kWidth) * load<Vector<C>>(x + v * kWidth);
  }
  [[gnu::always_inline]] void put(C* to) const {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) store(to + v * kWidth, vectors[v]);
  }
};
template <class C>
inline constexpr int64_t kFourVectors = 4 * kLanes<C>;

/// to[i] = bias + sum over taps of factors[t] * (from + distances[t])[i]
template <class C>
void combine_flat(C* to, int64_t length, const C* from, std::span<const int64_t> distances,
                  const C* factors, C bias) {
  static_assert(FlatLayout::kTogether % kFourVectors<C> == 0);
  for (int64_t i = 0; i < length; i += kFourVectors<C>) {
    Sums<C, kFourVectors<C>> sums;
    sums.set(bias);
    for (size_t t = 0; t < distances.size(); ++t) sums.add(factors[t], from + distances[t] + i);
    sums.put(to + i);
  }
}

template <class T, class C>
void store_plane(const Volumes<T>& out, const GatherPart& part, const FlatLayout& layout,
                 int64_t image, int64_t channel, const C* flat) {
  const auto at = [&](size_t dim, int64_t j) {
    return (part.axis[dim].out_start + j * part.axis[dim].out_step) * out.stride[dim];
  };
  T* const to = out.data + image * out.batch_stride + channel * out.channel_stride + at(2, 0);
  for (int64_t d = 0; d < part.axis[0].count; ++d)
    for (int64_t h = 0; h < part.axis[1].count; ++h)
      store_tile<T, C>(flat + layout.line(d, h), to + at(0, d) + at(1, h),
                       part.axis[2].out_step * out.stride[2], part.axis[2].count);
}

template <class T>
void direct_rows(const GatherArgs<T>& args, const GatherPart& part) {
  using C = gemm_compute_t<T>;
  using Purpose = GemmScratch::Purpose;
  const FlatLayout layout(part);
  const int64_t ins = args.in_channels(), outs = args.out_channels(), taps = part.taps();
  std::vector<int64_t> distances, offsets;  // channel, tap
  for (int64_t c = 0; c < ins; ++c)
    for (int64_t t = 0; t < taps; ++t) {
      distances.push_back(c * layout.copies() + layout.distance(taps_at(part, t)));
      offsets.push_back(c * args.weight.in_stride + args.weight.offset(taps_at(part, t)));
    }
  const int64_t work = part.positions() * (taps + 2) * ins * outs;
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, work));
  parallel_for(args.out.batch * args.groups, grain, [&](int64_t begin, int64_t end) {
    GemmScratch& scratch = GemmScratch::of_this_thread();
    C* const sums = scratch.get<C>(Purpose::sums, layout.length());
    C* const copies = scratch.get<C>(Purpose::dense_a, ins * layout.copies());
    std::vector<C> factors(offsets.size());
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / args.groups, group = task % args.groups;
      for (int64_t c = 0; c < ins && taps > 0; ++c)
        layout.fill(args.in, image, group * ins + c, copies + c * layout.copies());
      for (int64_t o = 0; o < outs; ++o) {
        const int64_t channel = group * outs + o;
        const T* const weight =
            args.weight.data + group * args.weight.group_stride + o * args.weight.out_stride;
        for (size_t t = 0; t < offsets.size(); ++t)
          factors[t] = convert_element<C>(weight[offsets[t]]);
        const C bias = args.bias ? convert_element<C>(args.bias[channel * args.bias_stride]) : C(0);
        combine_flat<C>(sums, layout.length(), copies, distances, factors.data(), bias);
        store_plane(args.out, part, layout, image, channel, sums);
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
    for (int64_t o = 0; o < args_.out_channels(); ++o)
      for (int64_t g = 0; g < args_.groups; g += kGroupBlock) run_block(at, reads, o, g);
  }

  void run_block(const Run& at, std::span<const Read> reads, int64_t o, int64_t first) const {
    const int64_t n = std::min(kGroupBlock, args_.groups - first);
    const int64_t ins = args_.in_channels(), outs = args_.out_channels();
    const int64_t position = at.w * part_.axis[2].in_step * args_.in.stride[2];
    const Volumes<T>& out = args_.out;
    C block[kGroupBlock], storage[kGroupBlock];
    const auto each = [&](auto&& body) {
      for (const Read& read : reads)
        for (int64_t i = 0; i < ins; ++i)
          body(weight_.data() + ((o * ins + i) * taps_ + read.tap) * args_.groups + first,
               load_channels<T, C>(args_.in.data + read.from + position +
                                       (first * ins + i) * args_.in.channel_stride,
                                   ins * args_.in.channel_stride, n, storage));
    };
    if (n == kGroupBlock) {
      Sums<C, kGroupBlock> sums;
      sums.set(C(0));
      each([&](const C* weight, const C* from) { sums.add(weight, from); });
      sums.put(block);
    } else {
      std::fill_n(block, kGroupBlock, C(0));
      each([&](const C* weight, const C* from) {
        for (int64_t g = 0; g < n; ++g) block[g] += weight[g] * from[g];
      });
    }
    if (args_.bias)
      for (int64_t g = 0; g < n; ++g)
        block[g] += convert_element<C>(args_.bias[((first + g) * outs + o) * args_.bias_stride]);
    const auto place = [&](size_t dim, int64_t j) {
      return (part_.axis[dim].out_start + j * part_.axis[dim].out_step) * out.stride[dim];
    };
    T* const to = out.data + at.image * out.batch_stride + place(0, at.d) + place(1, at.h) +
                  place(2, at.w) + (first * outs + o) * out.channel_stride;
    store_tile<T, C>(block, to, outs * out.channel_stride, n);
  }

  const GatherArgs<T>& args_;
  const GatherPart& part_;
  int64_t taps_;
  HostScratch<C> weight_;
  std::vector<Taps> list_;
};

}  // namespace tensora::cpu::TENSORA_ISA

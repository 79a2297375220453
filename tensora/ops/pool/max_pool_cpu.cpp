// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/pool/max_pool.h"

#include <limits>

#include "tensora/ops/pool/pool_cpu.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// As wide as the values, so that both are selected by one mask.
template <class C>
using IndexOf = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;

template <class C>
constexpr C lowest() {
  if constexpr (std::is_floating_point_v<C>) return -std::numeric_limits<C>::infinity();
  return std::numeric_limits<C>::lowest();
}

// Larger, or NaN: of several NaN the last stays, as in PyTorch.
template <class C>
bool replaces(C value, C best) {
  return (value > best) | (value != value);
}

// x[j * step] at position `at + j * step_at` against the best so far, for n lanes.
template <class C, bool indices>
void take(C* best, IndexOf<C>* chosen, const C* x, int64_t step, int64_t n, IndexOf<C> at,
          IndexOf<C> step_at) {
  const auto loop = [&](auto fixed) {
    const int64_t s = fixed();
    if constexpr (!indices) {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) {
        const C value = x[j * s];
        best[j] = replaces(value, best[j]) ? value : best[j];
      }
    } else {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) {
        const C value = x[j * s];
        const bool better = replaces(value, best[j]);
        best[j] = better ? value : best[j];
        chosen[j] =
            better ? static_cast<IndexOf<C>>(at + static_cast<IndexOf<C>>(j) * step_at) : chosen[j];
      }
    }
  };
  if (step == 1) return loop([] { return int64_t{1}; });
  if (step == 2) return loop([] { return int64_t{2}; });
  loop([&] { return step; });
}

template <class C, bool indices>
class MaxPool {
 public:
  using Index = IndexOf<C>;

  MaxPool(const View& in, const View& out, const View* places, const Windows& windows)
      : in_(in), out_(out), places_(places), windows_(windows) {
    for (int64_t w = 0; indices && out.numel > 0 && w < out.sizes[4]; ++w)
      first_columns_.push_back(first_place(0, 0, w) - first_place(0, 0, 0));
  }

  void run() const {
    const View& out = *out_.view;
    if (out.numel == 0) return;
    const int64_t work = window_work(windows_);
    if (runs_along_channels(*in_.view, out))
      return each_position(out, work, [&](auto... at) { channels(at...); });
    const int64_t rows = out.numel / out.sizes[4];
    const int64_t grain = std::max<int64_t>(1, 16 * 1024 / (out.sizes[4] * work));
    parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
      const int64_t wide = out.sizes[4];
      std::vector<C> best(static_cast<size_t>(wide)), row(static_cast<size_t>(in_.size(4)));
      std::vector<Index> chosen(static_cast<size_t>(indices ? wide : 0));
      each_row(out, begin, end, [&](int64_t n, int64_t c, int64_t d, int64_t h) {
        if (in_lanes(windows_.dims[2]))
          lanes(n, c, d, h, best.data(), chosen.data(), row.data());
        else
          one_by_one(n, c, d, h, best.data(), chosen.data(), row.data());
        out_.write(best.data(), out_.at(n, c, d, h, 0), 4, wide);
        write_places(chosen.data(), n, c, d, h, 0, 4, wide);
      });
    });
  }

 private:
  // The first position of a window, which stays if all its elements are -inf.
  Index first_place(int64_t d, int64_t h, int64_t w) const {
    return static_cast<Index>(windows_.first_place(d, h, w));
  }
  void start(int64_t d, int64_t h, C* best, Index* chosen) const {
    const int64_t wide = out_.size(4);
    std::fill_n(best, wide, lowest<C>());
    if constexpr (indices) {
      const Index first = first_place(d, h, 0);
      const Index* const columns = first_columns_.data();
#pragma omp simd
      for (int64_t w = 0; w < wide; ++w) chosen[w] = first + columns[w];
    }
  }
  void write_places(const Index* chosen, int64_t n, int64_t c, int64_t d, int64_t h, int64_t w,
                    int dim, int64_t count) const {
    if constexpr (indices) {
      const Strides& strides = places_->strides;
      int64_t* to = places_->as<int64_t>() + n * strides[0] + c * strides[1] + d * strides[2] +
                    h * strides[3] + w * strides[4];
      const int64_t step = strides[dim];
      if (step == 1)
        std::copy_n(chosen, count, to);
      else
        for (int64_t j = 0; j < count; ++j) to[j * step] = chosen[j];
    }
  }

  void lanes(int64_t n, int64_t c, int64_t od, int64_t oh, C* best, Index* chosen, C* row) const {
    const WindowDim& width = windows_.dims[2];
    start(od, oh, best, chosen);
    each_window_row(windows_, od, oh, [&](int64_t id, int64_t ih) {
      const C* const x = in_.read(in_.at(n, c, id, ih, 0), 4, width.in, row);
      const int64_t before = (id * windows_.dims[1].in + ih) * width.in;
      for (int64_t k = 0; k < width.kernel; ++k) {
        const LaneRange range = lanes_of(width, k);
        if (range.begin >= range.end) continue;
        const int64_t at = range.offset + range.begin * width.stride;
        take<C, indices>(best + range.begin, chosen + (indices ? range.begin : 0), x + at,
                         width.stride, range.end - range.begin, static_cast<Index>(before + at),
                         static_cast<Index>(width.stride));
      }
    });
  }

  void one_by_one(int64_t n, int64_t c, int64_t od, int64_t oh, C* best, Index* chosen,
                  C* row) const {
    const WindowDim& width = windows_.dims[2];
    start(od, oh, best, chosen);
    each_window_row(windows_, od, oh, [&](int64_t id, int64_t ih) {
      const C* const x = in_.read(in_.at(n, c, id, ih, 0), 4, width.in, row);
      const int64_t before = (id * windows_.dims[1].in + ih) * width.in;
      for (int64_t w = 0; w < width.out; ++w) {
        const int64_t end = width.end(w);
        C value = best[w];
        int64_t place = -1;
        for (int64_t i = width.first(w); i < end; i += width.dilation)
          if (replaces(x[i], value)) value = x[i], place = i;
        best[w] = value;
        if constexpr (indices)
          if (place >= 0) chosen[w] = static_cast<Index>(before + place);
      }
    });
  }

  void channels(int64_t n, int64_t first, int64_t count, int64_t od, int64_t oh, int64_t ow) const {
    const WindowDim& width = windows_.dims[2];
    C best[kChannelBlock], buffer[kChannelBlock];
    Index chosen[kChannelBlock];
    std::fill_n(best, count, lowest<C>());
    if constexpr (indices) std::fill_n(chosen, count, first_place(od, oh, ow));
    const int64_t end = width.end(ow);
    each_window_row(windows_, od, oh, [&](int64_t id, int64_t ih) {
      const int64_t before = (id * windows_.dims[1].in + ih) * width.in;
      for (int64_t iw = width.first(ow); iw < end; iw += width.dilation) {
        const C* const x = in_.read(in_.at(n, first, id, ih, iw), 1, count, buffer);
        take<C, indices>(best, chosen, x, 1, count, static_cast<Index>(before + iw), 0);
      }
    });
    out_.write(best, out_.at(n, first, od, oh, ow), 1, count);
    write_places(chosen, n, first, od, oh, ow, 1, count);
  }

  Runs<C> in_, out_;
  const View* places_;
  Windows windows_;
  std::vector<Index> first_columns_;  // of the windows of a row, from that of the first one
};

void max_pool_kernel(const KernelContext& context, const MaxPoolAttrs& attrs) {
  const int dims = attrs.dims();
  const View in = pool::as_five_dims(context.input(0), dims);
  const View out = pool::as_five_dims(context.output(0), dims);
  const Windows windows = pool::windows_of(context.input(0).sizes, attrs);
  const int64_t plane = windows.dims[0].in * windows.dims[1].in * windows.dims[2].in;
  const auto run = [&]<class C>() {
    if (!attrs.return_indices) return MaxPool<C, false>(in, out, nullptr, windows).run();
    const View places = pool::as_five_dims(context.output(1), dims);
    MaxPool<C, true>(in, out, &places, windows).run();
  };
  if (!is_floating_point(in.dtype)) return run.operator()<int64_t>();
  // Positions of floats are kept in 32 bits.
  if (in.dtype == kFloat64 || plane > std::numeric_limits<int32_t>::max())
    return run.operator()<double>();
  run.operator()<float>();
}

// ---- backward
// ------------------------------------------------------------------------------------

template <class C>
class MaxPoolBackward {
 public:
  MaxPoolBackward(const View& grad, const View& places, const View& out, const Windows& windows)
      : grad_(grad), places_(places), out_(out), windows_(windows) {}

  void run() const {
    const View &out = *out_.view, &grad = *grad_.view;
    if (out.numel == 0) return;
    if (runs_along_channels(grad, out) && places_.strides[1] == 1)
      return each_position(out, 4, [&](auto... at) { channels(at...); });
    const int64_t plane = out.sizes[2] * out.sizes[3] * out.sizes[4];
    parallel_for(out.sizes[0] * out.sizes[1], std::max<int64_t>(1, 16 * 1024 / plane),
                 [&](int64_t begin, int64_t end) {
                   std::vector<C> sums(static_cast<size_t>(plane));
                   std::vector<C> row(static_cast<size_t>(grad.sizes[4]));
                   for (int64_t i = begin; i < end; ++i)
                     one_plane(i / out.sizes[1], i % out.sizes[1], sums, row);
                 });
  }

 private:
  const int64_t* places_at(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) const {
    const Strides& strides = places_.strides;
    return places_.as<const int64_t>() + n * strides[0] + c * strides[1] + d * strides[2] +
           h * strides[3] + w * strides[4];
  }

  void one_plane(int64_t n, int64_t c, std::vector<C>& sums, std::vector<C>& row) const {
    std::fill(sums.begin(), sums.end(), C(0));
    const int64_t wide = grad_.size(4), step = places_.strides[4];
    for (int64_t d = 0; d < grad_.size(2); ++d)
      for (int64_t h = 0; h < grad_.size(3); ++h) {
        const C* const g = grad_.read(grad_.at(n, c, d, h, 0), 4, wide, row.data());
        const int64_t* const places = places_at(n, c, d, h, 0);
        for (int64_t w = 0; w < wide; ++w) sums[static_cast<size_t>(places[w * step])] += g[w];
      }
    const C* from = sums.data();
    for (int64_t d = 0; d < out_.size(2); ++d)
      for (int64_t h = 0; h < out_.size(3); ++h, from += out_.size(4))
        out_.write(from, out_.at(n, c, d, h, 0), 4, out_.size(4));
  }

  // Collects from the windows that contain the position, in a fixed order.
  void channels(int64_t n, int64_t first, int64_t count, int64_t id, int64_t ih, int64_t iw) const {
    const auto& dims = windows_.dims;
    C sum[kChannelBlock], buffer[kChannelBlock];
    std::fill_n(sum, count, C(0));
    const int64_t place = (id * dims[1].in + ih) * dims[2].in + iw;
    const int64_t d_end = dims[0].end_window(id), h_end = dims[1].end_window(ih);
    const int64_t w_end = dims[2].end_window(iw);
    for (int64_t d = dims[0].first_window(id); d < d_end; ++d)
      for (int64_t h = dims[1].first_window(ih); h < h_end; ++h)
        for (int64_t w = dims[2].first_window(iw); w < w_end; ++w) {
          const C* const g = grad_.read(grad_.at(n, first, d, h, w), 1, count, buffer);
          const int64_t* const places = places_at(n, first, d, h, w);
#pragma omp simd
          for (int64_t j = 0; j < count; ++j) sum[j] += places[j] == place ? g[j] : C(0);
        }
    out_.write(sum, out_.at(n, first, id, ih, iw), 1, count);
  }

  Runs<C> grad_;
  const View& places_;
  Runs<C> out_;
  Windows windows_;
};

void max_pool_backward_kernel(const KernelContext& context, const MaxPoolBackwardAttrs& attrs) {
  const int dims = attrs.dims();
  const View grad = pool::as_five_dims(context.input(0), dims);
  const View places = pool::as_five_dims(context.input(1), dims);
  const View out = pool::as_five_dims(context.output(), dims);
  const Windows windows = pool::windows_of(attrs.sizes, attrs);
  if (out.dtype == kFloat64)
    MaxPoolBackward<double>(grad, places, out, windows).run();
  else
    MaxPoolBackward<float>(grad, places, out, windows).run();
}

}  // namespace

void register_max_pool_cpu() {
  max_pool_op.set_kernel(DeviceType::cpu, max_pool_kernel);
  max_pool_backward_op.set_kernel(DeviceType::cpu, max_pool_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

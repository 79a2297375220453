// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/pool/avg_pool.h"

#include "tensora/ops/pool/pool_cpu.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// to[j] += x[j * step]
template <class C>
void add_from(C* to, const C* x, int64_t step, int64_t n) {
  if (step == 1) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) to[j] += x[j];
  } else if (step == 2) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) to[j] += x[2 * j];
  } else {
    for (int64_t j = 0; j < n; ++j) to[j] += x[j * step];
  }
}

// to[j * step] += x[j]
template <class C>
void add_to(C* to, const C* x, int64_t step, int64_t n) {
  if (step == 1) return add_from(to, x, 1, n);
  for (int64_t j = 0; j < n; ++j) to[j * step] += x[j];
}

template <class C>
C sum_of(const C* x, int64_t n) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) sum += x[j];
  return sum;
}

// Divides the values of a row of outputs; one window's size is the product of three.
template <class C>
class RowDivisors {
 public:
  RowDivisors(const Windows& windows, pool::Divisor divisor) : windows_(windows) {
    const WindowDim& width = windows.dims[2];
    fixed_ = divisor.fixed;
    count_padding_ = divisor.count_padding;
    for (int64_t w = 0; w < width.out; ++w)
      sizes_.push_back(fixed_ != 0 ? static_cast<C>(fixed_) : static_cast<C>(size(2, w)));
  }
  void divide(int64_t d, int64_t h, const C* from, C* to) const {
    const C rest = fixed_ != 0 ? C(1) : static_cast<C>(size(0, d) * size(1, h));
    const auto n = static_cast<int64_t>(sizes_.size());
    const C* const sizes = sizes_.data();
#pragma omp simd
    for (int64_t w = 0; w < n; ++w) to[w] = from[w] / (sizes[w] * rest);
  }

 private:
  int64_t size(int k, int64_t o) const {
    const WindowDim& dim = windows_.dims[k];
    return count_padding_ ? dim.padded_size(o) : dim.end(o) - dim.first(o);
  }

  const Windows& windows_;
  int64_t fixed_;
  bool count_padding_;
  std::vector<C> sizes_;
};

template <class C>
class AvgPool {
 public:
  AvgPool(const View& in, const View& out, const Windows& windows, pool::Divisor divisor)
      : in_(in), out_(out), windows_(windows), divisor_(divisor) {}

  void run() const {
    const View& out = *out_.view;
    if (out.numel == 0) return;
    const int64_t work = window_work(windows_);
    if (runs_along_channels(*in_.view, out))
      return each_position(out, work, [&](auto... at) { channels(at...); });
    const RowDivisors<C> divisors(windows_, divisor_);
    const int64_t wide = out.sizes[4], rows = out.numel / wide;
    parallel_for(rows, std::max<int64_t>(1, 16 * 1024 / (wide * work)),
                 [&](int64_t begin, int64_t end) {
                   std::vector<C> sums(static_cast<size_t>(wide));
                   std::vector<C> row(static_cast<size_t>(in_.size(4)));
                   each_row(out, begin, end, [&](int64_t n, int64_t c, int64_t d, int64_t h) {
                     add_rows(n, c, d, h, sums.data(), row.data());
                     divisors.divide(d, h, sums.data(), sums.data());
                     out_.write(sums.data(), out_.at(n, c, d, h, 0), 4, wide);
                   });
                 });
  }

 private:
  void add_rows(int64_t n, int64_t c, int64_t od, int64_t oh, C* sums, C* row) const {
    const WindowDim& width = windows_.dims[2];
    std::fill_n(sums, width.out, C(0));
    const bool lanes = in_lanes(width);
    each_window_row(windows_, od, oh, [&](int64_t id, int64_t ih) {
      const C* const x = in_.read(in_.at(n, c, id, ih, 0), 4, width.in, row);
      if (lanes) {
        for (int64_t k = 0; k < width.kernel; ++k) {
          const LaneRange range = lanes_of(width, k);
          if (range.begin < range.end)
            add_from(sums + range.begin, x + range.offset + range.begin * width.stride,
                     width.stride, range.end - range.begin);
        }
      } else {
        for (int64_t w = 0; w < width.out; ++w)
          sums[w] += sum_of(x + width.first(w), width.end(w) - width.first(w));
      }
    });
  }

  void channels(int64_t n, int64_t first, int64_t count, int64_t od, int64_t oh, int64_t ow) const {
    const WindowDim& width = windows_.dims[2];
    C sums[kChannelBlock], buffer[kChannelBlock];
    std::fill_n(sums, count, C(0));
    const int64_t end = width.end(ow);
    each_window_row(windows_, od, oh, [&](int64_t id, int64_t ih) {
      for (int64_t iw = width.first(ow); iw < end; ++iw)
        add_from(sums, in_.read(in_.at(n, first, id, ih, iw), 1, count, buffer), 1, count);
    });
    const C by = static_cast<C>(divisor_.of(windows_, od, oh, ow));
#pragma omp simd
    for (int64_t j = 0; j < count; ++j) sums[j] /= by;
    out_.write(sums, out_.at(n, first, od, oh, ow), 1, count);
  }

  Runs<C> in_, out_;
  Windows windows_;
  pool::Divisor divisor_;
};

template <class C>
class AvgPoolBackward {
 public:
  AvgPoolBackward(const View& grad, const View& out, const Windows& windows, pool::Divisor divisor)
      : grad_(grad), out_(out), windows_(windows), divisor_(divisor) {}

  void run() const {
    const View& out = *out_.view;
    if (out.numel == 0) return;
    if (runs_along_channels(*grad_.view, out))
      return each_position(out, 4, [&](auto... at) { channels(at...); });
    const RowDivisors<C> divisors(windows_, divisor_);
    const int64_t plane = out.sizes[2] * out.sizes[3] * out.sizes[4];
    parallel_for(out.sizes[0] * out.sizes[1], std::max<int64_t>(1, 16 * 1024 / plane),
                 [&](int64_t begin, int64_t end) {
                   std::vector<C> sums(static_cast<size_t>(plane));
                   std::vector<C> row(static_cast<size_t>(grad_.size(4)));
                   for (int64_t i = begin; i < end; ++i)
                     one_plane(i / out.sizes[1], i % out.sizes[1], divisors, sums, row);
                 });
  }

 private:
  void one_plane(int64_t n, int64_t c, const RowDivisors<C>& divisors, std::vector<C>& sums,
                 std::vector<C>& row) const {
    std::fill(sums.begin(), sums.end(), C(0));
    for (int64_t d = 0; d < grad_.size(2); ++d)
      for (int64_t h = 0; h < grad_.size(3); ++h) {
        const C* const g = grad_.read(grad_.at(n, c, d, h, 0), 4, grad_.size(4), row.data());
        divisors.divide(d, h, g, row.data());
        spread_row(d, h, row.data(), sums.data());
      }
    const C* from = sums.data();
    for (int64_t d = 0; d < out_.size(2); ++d)
      for (int64_t h = 0; h < out_.size(3); ++h, from += out_.size(4))
        out_.write(from, out_.at(n, c, d, h, 0), 4, out_.size(4));
  }

  void spread_row(int64_t od, int64_t oh, const C* shares, C* sums) const {
    const WindowDim& width = windows_.dims[2];
    const bool lanes = in_lanes(width);
    each_window_row(windows_, od, oh, [&](int64_t id, int64_t ih) {
      C* const to = sums + (id * windows_.dims[1].in + ih) * width.in;
      if (lanes) {
        for (int64_t k = 0; k < width.kernel; ++k) {
          const LaneRange range = lanes_of(width, k);
          if (range.begin < range.end)
            add_to(to + range.offset + range.begin * width.stride, shares + range.begin,
                   width.stride, range.end - range.begin);
        }
      } else {
        for (int64_t w = 0; w < width.out; ++w)
          for (int64_t i = width.first(w); i < width.end(w); ++i) to[i] += shares[w];
      }
    });
  }

  void channels(int64_t n, int64_t first, int64_t count, int64_t id, int64_t ih, int64_t iw) const {
    const auto& dims = windows_.dims;
    C sums[kChannelBlock], buffer[kChannelBlock];
    std::fill_n(sums, count, C(0));
    const int64_t d_end = dims[0].end_window(id), h_end = dims[1].end_window(ih);
    const int64_t w_end = dims[2].end_window(iw);
    for (int64_t d = dims[0].first_window(id); d < d_end; ++d)
      for (int64_t h = dims[1].first_window(ih); h < h_end; ++h)
        for (int64_t w = dims[2].first_window(iw); w < w_end; ++w) {
          const C* const g = grad_.read(grad_.at(n, first, d, h, w), 1, count, buffer);
          const C by = static_cast<C>(divisor_.of(windows_, d, h, w));
#pragma omp simd
          for (int64_t j = 0; j < count; ++j) sums[j] += g[j] / by;
        }
    out_.write(sums, out_.at(n, first, id, ih, iw), 1, count);
  }

  Runs<C> grad_, out_;
  Windows windows_;
  pool::Divisor divisor_;
};

template <template <class> class Run>
void run_pool(const View& in, const View& out, const Shape& sizes, const AvgPoolAttrs& attrs) {
  const int dims = attrs.dims();
  const View from = pool::as_five_dims(in, dims), to = pool::as_five_dims(out, dims);
  const Windows windows = pool::windows_of(sizes, attrs);
  if (!is_floating_point(in.dtype)) return Run<int64_t>(from, to, windows, attrs.divisor()).run();
  if (in.dtype == kFloat64) return Run<double>(from, to, windows, attrs.divisor()).run();
  Run<float>(from, to, windows, attrs.divisor()).run();
}

void avg_pool_kernel(const KernelContext& context, const AvgPoolAttrs& attrs) {
  run_pool<AvgPool>(context.input(0), context.output(), context.input(0).sizes, attrs);
}

void avg_pool_backward_kernel(const KernelContext& context, const AvgPoolBackwardAttrs& attrs) {
  run_pool<AvgPoolBackward>(context.input(0), context.output(), attrs.sizes, attrs);
}

}  // namespace

void register_avg_pool_cpu() {
  avg_pool_op.set_kernel(DeviceType::cpu, avg_pool_kernel);
  avg_pool_backward_op.set_kernel(DeviceType::cpu, avg_pool_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

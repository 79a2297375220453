// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/fft/transforms.h"

#include <algorithm>

#include "tensora/backend/cpu/scratch.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/fft/fft_lanes.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kSerialPoints = 1 << 14;  // of work that is not worth a second thread

/// Complex numbers next to each other.
template <class T>
Line<T> pairs_at(T* data) {
  return {data, data + 1, 2};
}

// ---- lines of complex numbers ------------------------------------------------------------------

/// Two buffers for lines in lanes.
template <class T>
class Buffers {
 public:
  explicit Buffers(int64_t n) : memory_((4 * n + 1) * kFftLanes<T>), n_(n) {}
  Parts<FftVector<T>>* first() const {  // small blocks of the allocator begin anywhere
    constexpr uintptr_t kBytes = sizeof(FftVector<T>);
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return reinterpret_cast<Parts<FftVector<T>>*>((address + kBytes - 1) / kBytes * kBytes);
  }
  Parts<FftVector<T>>* second() const { return first() + n_; }

 private:
  HostScratch<T> memory_;
  int64_t n_;
};

template <class T>
void run_in_lanes(const FftPlan<T>& plan, const Buffers<T>& buffers, const Lines<T>& from,
                  const Lines<T>& to, T scale) {
  gather(from, plan.n, buffers.first());
  scatter(run_in_buffers(plan, buffers.first(), buffers.second()), plan.n, scale, to);
}

// A line as an array: columns in lanes, twists, rows in lanes.
template <class T>
void run_split(const FftPlan<T>& plan, const Line<T>& from, const Line<T>& to, T scale) {
  constexpr int64_t kLanes = kFftLanes<T>;
  const int64_t columns = plan.columns->n, rows = plan.rows->n, length = plan.row_length;
  const HostScratch<T> middle(2 * columns * length);
  T *const middle_re = middle.data(), *const middle_im = middle_re + columns * length;
  const auto grain = [](int64_t n) { return std::max<int64_t>(1, kSerialPoints / (n * kLanes)); };
  parallel_for(length / kLanes, grain(columns), [&](int64_t begin, int64_t end) {
    const Buffers<T> buffers(columns);
    for (int64_t at = begin * kLanes; at < end * kLanes; at += kLanes) {
      const Line<T> column{from.re, from.im, from.stride * rows};
      gather(Lines<T>::equally(column.at(at * from.stride), from.stride, rows - at), columns,
             buffers.first());
      const auto* const result = run_passes(*plan.columns, buffers.first(), buffers.second());
      for (int64_t k = 0; k < columns; ++k) {
        const T* const re = reinterpret_cast<const T*>(&result[k].re);
        const T* const im = reinterpret_cast<const T*>(&result[k].im);
        const int64_t row = k * length + at;
        const T *const twist_re = plan.twist_re.data() + row, *const twist_im =
                                                                  plan.twist_im.data() + row;
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          middle_re[row + lane] = re[lane] * twist_re[lane] - im[lane] * twist_im[lane];
          middle_im[row + lane] = re[lane] * twist_im[lane] + im[lane] * twist_re[lane];
        }
      }
    }
  });
  parallel_for((columns + kLanes - 1) / kLanes, grain(rows), [&](int64_t begin, int64_t end) {
    const Buffers<T> buffers(rows);
    for (int64_t k = begin * kLanes; k < std::min(end * kLanes, columns); k += kLanes) {
      const Line<T> row{middle_re, middle_im, 1};
      const Line<T> spread{to.re, to.im, to.stride * columns};
      run_in_lanes(*plan.rows, buffers, Lines<T>::equally(row.at(k * length), length, columns - k),
                   Lines<T>::equally(spread.at(k * to.stride), to.stride, columns - k), scale);
    }
  });
}

template <class T>
void run_line(const FftPlan<T>& plan, const Line<T>& from, const Line<T>& to, T scale);

template <class T>
void transform_pairs(const FftPlan<T>& plan, const T* from, T* to) {
  run_line(plan, pairs_at(const_cast<T*>(from)), pairs_at(to), T(1));
}

// x[j] chirp[j], convolved with the chirp's conjugate, times the chirp.
template <class T>
void convolve(const FftPlan<T>& plan, const Line<T>& from, const Line<T>& to, T scale) {
  const int64_t length = plan.convolution->n;
  const HostScratch<T> memory(4 * length);
  T *const x = memory.data(), *const y = x + 2 * length;
  for (int64_t j = 0; j < plan.n; ++j) {
    const Parts<T> value{from.re ? from.re[j * from.stride] : T(0),
                         from.im ? from.im[j * from.stride] : T(0)};
    const Parts<T> product = times(value, plan.chirp[static_cast<size_t>(2 * j)],
                                   plan.chirp[static_cast<size_t>(2 * j + 1)]);
    x[2 * j] = product.re;
    x[2 * j + 1] = product.im;
  }
  std::fill(x + 2 * plan.n, x + 2 * length, T(0));
  run_line(*plan.convolution, pairs_at(x), pairs_at(y), T(1));
  for (int64_t k = 0; k < length; ++k) {
    const Parts<T> product =
        times(Parts<T>{y[2 * k], y[2 * k + 1]}, plan.spectrum[static_cast<size_t>(2 * k)],
              plan.spectrum[static_cast<size_t>(2 * k + 1)]);
    y[2 * k] = product.re;
    y[2 * k + 1] = product.im;
  }
  run_line(*plan.convolution, pairs_at(y).swapped(), pairs_at(x).swapped(), T(1));
  for (int64_t k = 0; k < plan.n; ++k) {
    const Parts<T> result =
        times(Parts<T>{x[2 * k], x[2 * k + 1]}, plan.chirp[static_cast<size_t>(2 * k)],
              plan.chirp[static_cast<size_t>(2 * k + 1)]);
    if (to.re) to.re[k * to.stride] = result.re * scale;
    if (to.im) to.im[k * to.stride] = result.im * scale;
  }
}

/// One line alone.
template <class T>
void run_line(const FftPlan<T>& plan, const Line<T>& from, const Line<T>& to, T scale) {
  if (plan.convolution) return convolve(plan, from, to, scale);
  if (plan.columns) return run_split(plan, from, to, scale);
  const Buffers<T> buffers(plan.n);
  run_in_lanes(plan, buffers, Lines<T>::equally(from, 0, 1), Lines<T>::equally(to, 0, 1), scale);
}

// ---- real lines --------------------------------------------------------------------------------

/// From the transform z of n / 2 pairs of real numbers, x[2 j] + i x[2 j + 1], that of x: the
/// elements 0 … n / 2.
template <class V, class T>
void take_apart(const Parts<V>* z, int64_t half, const T* roots, Parts<V>* x) {
  for (int64_t k = 0; k <= half; ++k) {
    const Parts<V>&a = z[k < half ? k : 0], &b = z[k ? half - k : 0];
    const Parts<V> even{(a.re + b.re) * T(0.5), (a.im - b.im) * T(0.5)};
    const Parts<V> odd{(a.im + b.im) * T(0.5), (b.re - a.re) * T(0.5)};
    x[k] = plus(even, times(odd, roots[2 * k], roots[2 * k + 1]));
  }
}

/// The reverse, its parts exchanged, for the inverse transform.
template <class V, class T>
void put_together(Parts<V>* x, int64_t half, const T* roots, Parts<V>* z) {
  x[0].im = x[half].im = V{};
  for (int64_t k = 0; k < half; ++k) {
    const Parts<V>&a = x[k], &b = x[half - k];
    const Parts<V> even{a.re + b.re, a.im - b.im};
    const Parts<V> odd = times(Parts<V>{a.re - b.re, a.im + b.im}, roots[2 * k], -roots[2 * k + 1]);
    z[k] = {even.im + odd.re, even.re - odd.im};
  }
}

/// A spectrum of odd length n from its first half, its parts exchanged.
template <class V>
void complete(Parts<V>* x, int64_t n, Parts<V>* z) {
  z[0] = {V{}, x[0].re};
  for (int64_t k = 1; k <= n / 2; ++k) {
    z[k] = {x[k].im, x[k].re};
    z[n - k] = {-x[k].im, x[k].re};
  }
}

// ---- one dim -----------------------------------------------------------------------------------

enum class Kind { complex, real_to_complex, complex_to_real };

/// Where the lines of one dim of an array begin, one after the other; in numbers, of which complex
/// elements have two.
class Starts {
 public:
  Starts(const View& view, int dim, int64_t first) {
    const int64_t parts = is_complex(view.dtype) ? 2 : 1;
    for (int d = view.dim() - 1; d >= 0; --d) {  // the last dim first
      if (d == dim) continue;
      sizes_.push_back(view.sizes[d]);
      strides_.push_back(view.strides[d] * parts);
      index_.push_back(view.sizes[d] ? first % view.sizes[d] : 0);
      first = view.sizes[d] ? first / view.sizes[d] : 0;
      at_ += index_.back() * strides_.back();
    }
  }
  /// The next `count` starts, from the first of them.
  int64_t take(int count, int64_t* offsets) {
    const int64_t first = at_;
    for (int i = 0; i < count; ++i) {
      offsets[i] = at_ - first;
      step();
    }
    return first;
  }

 private:
  void step() {
    for (int d = 0; d < sizes_.size(); ++d) {
      at_ += strides_[d];
      if (++index_[d] < sizes_[d]) return;
      at_ -= index_[d] * strides_[d];
      index_[d] = 0;
    }
  }

  Shape sizes_, strides_, index_;
  int64_t at_ = 0;
};

template <class T>
Line<T> line_of(const View& view, int dim) {
  T* const data = view.as<T>();
  if (is_complex(view.dtype)) return {data, data + 1, 2 * view.strides[dim]};
  return {data, nullptr, view.strides[dim]};
}

/// Real numbers as the parts of half as many complex ones.
template <class T>
Line<T> packed(const Line<T>& line) {
  return {line.re, line.re + line.stride, 2 * line.stride};
}

/// A transform of all lines of one dim.
template <class T>
struct Transform {
  Kind kind;
  int64_t n;  // of the lines, if complex or real
  bool forward;
  T scale;
  std::shared_ptr<const FftPlan<T>> plan;

  bool is_packed() const { return kind != Kind::complex && n % 2 == 0; }
  const FftPlan<T>& inner() const { return is_packed() ? *plan->packed : *plan; }

  void lanes(const Buffers<T>& buffers, const Lines<T>& from, const Lines<T>& to) const;
  void line(const Line<T>& from, const Line<T>& to) const;
};

template <class T>
Lines<T> with_line(Lines<T> lines, const Line<T>& line) {
  lines.first = line;
  return lines;
}

template <class T>
void Transform<T>::lanes(const Buffers<T>& buffers, const Lines<T>& from,
                         const Lines<T>& to) const {
  auto *const first = buffers.first(), *const second = buffers.second();
  if (kind == Kind::complex) {
    const Line<T>&in = from.first, &out = to.first;
    return run_in_lanes(*plan, buffers, with_line(from, forward ? in : in.swapped()),
                        with_line(to, forward ? out : out.swapped()), scale);
  }
  if (kind == Kind::real_to_complex) {
    gather(is_packed() ? with_line(from, packed(from.first)) : from, inner().n, first);
    auto* result = run_in_buffers(inner(), first, second);
    if (is_packed()) {
      auto* const apart = result == first ? second : first;
      take_apart(result, n / 2, plan->roots.data(), apart);
      result = apart;
    }
    return scatter(result, n / 2 + 1, scale, to);
  }
  gather(from, n / 2 + 1, first);
  if (!is_packed()) {
    complete(first, n, second);
    return scatter(run_in_buffers(*plan, second, first), n, scale,
                   with_line(to, to.first.swapped()));
  }
  put_together(first, n / 2, plan->roots.data(), second);
  scatter(run_in_buffers(inner(), second, first), n / 2, scale,
          with_line(to, packed(to.first).swapped()));
}

template <class T>
void Transform<T>::line(const Line<T>& from, const Line<T>& to) const {
  if (kind == Kind::complex)
    return run_line(*plan, forward ? from : from.swapped(), forward ? to : to.swapped(), scale);
  const HostScratch<T> memory(4 * (n + 1));
  T *const a = memory.data(), *const b = a + 2 * (n + 1);
  auto *const x = reinterpret_cast<Parts<T>*>(a), *const z = reinterpret_cast<Parts<T>*>(b);
  if (kind == Kind::real_to_complex) {
    run_line(inner(), is_packed() ? packed(from) : from, pairs_at(b), T(1));
    if (is_packed()) take_apart(z, n / 2, plan->roots.data(), x);
    const Parts<T>* const result = is_packed() ? x : z;
    for (int64_t k = 0; k <= n / 2; ++k) {
      to.re[k * to.stride] = result[k].re * scale;
      to.im[k * to.stride] = result[k].im * scale;
    }
    return;
  }
  for (int64_t k = 0; k <= n / 2; ++k) x[k] = {from.re[k * from.stride], from.im[k * from.stride]};
  if (is_packed())
    put_together(x, n / 2, plan->roots.data(), z);
  else
    complete(x, n, z);
  run_line(inner(), pairs_at(b), is_packed() ? packed(to).swapped() : to.swapped(), scale);
}

template <class T>
void transform_dim(const Transform<T>& transform, const View& in, const View& out, int dim) {
  constexpr int kLanes = kFftLanes<T>;
  const int64_t lines = out.numel / out.sizes[dim], groups = (lines + kLanes - 1) / kLanes;
  const FftPlan<T>& inner = transform.inner();
  const auto body = [&](int64_t begin, int64_t end) {
    Starts starts_in(in, dim, begin * kLanes), starts_out(out, dim, begin * kLanes);
    const Line<T> first_in = line_of<T>(in, dim), first_out = line_of<T>(out, dim);
    const bool in_lanes = inner.runs_in_lanes();
    const Buffers<T> buffers(in_lanes ? std::max(transform.n + 1, inner.longest()) : 1);
    for (int64_t group = begin; group < end; ++group) {
      const int count = static_cast<int>(std::min<int64_t>(kLanes, lines - group * kLanes));
      Lines<T> from, to;
      from.count = to.count = count;
      from.first = first_in.at(starts_in.take(count, from.offsets));
      to.first = first_out.at(starts_out.take(count, to.offsets));
      if (in_lanes && (2 * count >= kLanes || !inner.runs_alone())) {
        transform.lanes(buffers, from, to);
        continue;
      }
      for (int lane = 0; lane < count; ++lane)
        transform.line(from.first.at(from.offsets[lane]), to.first.at(to.offsets[lane]));
    }
  };
  parallel_for(groups, std::max<int64_t>(1, kSerialPoints / (transform.n * kLanes)), body);
}

/// Transforms `dim` of `in`; `n` is the size of the real or complex lines.
struct Step {
  Kind kind;
  int dim;
  int64_t n;
  bool forward;
  double scale;
};

template <class T>
void run_step(const Step& step, const View& in, const View& out) {
  const bool real = step.kind != Kind::complex && step.n % 2 == 0;
  transform_dim(
      Transform<T>{step.kind, step.n, step.forward, static_cast<T>(step.scale),
                   fft_plan<T>(step.n, real ? FftLines::real_lines : FftLines::complex_lines,
                               transform_pairs<T>)},
      in, out, step.dim);
}

void run(const Step& step, const View& in, const View& out) {
  if (out.numel == 0) return;
  if (real_dtype(in.dtype) == DType::float64)
    run_step<double>(step, in, out);
  else
    run_step<float>(step, in, out);
}

// ---- kernels -----------------------------------------------------------------------------------

/// The complex transforms over all dims but the last `kept`; the first one reads `in`.
void run_complex(const View& in, const View& out, const Dims& dims, int kept, bool forward,
                 double scale) {
  const View* from = &in;
  for (int i = dims.size() - 1 - kept; i >= 0; --i) {
    const int dim = static_cast<int>(dims[i]);
    run({Kind::complex, dim, out.sizes[dim], forward, scale}, *from, out);
    from = &out;
    scale = 1;
  }
}

Dims wrapped(const KernelContext& context, const Dims& dims) {
  return wrap_dims(dims, context.output().dim(), context.op);
}

void c2c_kernel(const KernelContext& context, const FftAttrs& attrs) {
  run_complex(context.input(0), context.output(), wrapped(context, attrs.dim), 0, attrs.forward,
              attrs.scale);
}

void r2c_kernel(const KernelContext& context, const RealFftAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  const Dims dims = wrapped(context, attrs.dim);
  const int last = static_cast<int>(dims.back());
  run({Kind::real_to_complex, last, in.sizes[last], true, attrs.scale}, in, out);
  run_complex(out, out, dims, 1, true, 1);
}

void c2r_kernel(const KernelContext& context, const InverseRealFftAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  const Dims dims = wrapped(context, attrs.dim);
  const int last = static_cast<int>(dims.back());
  const Step step{Kind::complex_to_real, last, out.sizes[last], false, attrs.scale};
  if (dims.size() == 1) return run(step, in, out);
  View middle = in;
  middle.strides = contiguous_strides(in.sizes);
  middle.update();
  const HostScratch<char> memory(static_cast<int64_t>(middle.bytes()));
  middle.data = memory.data();
  run_complex(in, middle, dims, 1, false, 1);
  run(step, middle, out);
}

}  // namespace

void register_transforms_cpu() {
  fft_c2c_op.set_kernel(DeviceType::cpu, c2c_kernel);
  fft_r2c_op.set_kernel(DeviceType::cpu, r2c_kernel);
  fft_c2r_op.set_kernel(DeviceType::cpu, c2r_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

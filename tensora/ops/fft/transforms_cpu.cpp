#include "tensora/ops/fft/transforms.h"

#include <algorithm>

#include "tensora/base/thread_pool.h"
#include "tensora/ops/fft/fft_real.h"
#include "tensora/ops/fft/fft_run.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

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
  bool whole;  // real to complex: all elements, not only the first half
  T scale;
  std::shared_ptr<const FftPlan<T>> plan;

  bool is_packed() const { return kind != Kind::complex && n % 2 == 0; }
  const FftPlan<T>& inner() const { return is_packed() ? *plan->packed : *plan; }

  bool runs_along() const {
    return kind == Kind::complex ? plan->runs_along() : is_packed() && plan->packed->along;
  }
  void across(const Buffers<T>& buffers, const Lines<T>& from, const Lines<T>& to) const;
  /// Lines that are contiguous, if runs_along().
  void along(const Buffers<T>& buffers, const Line<T>& from, const Line<T>& to) const;
  void line(const Line<T>& from, const Line<T>& to) const;
  void finish(const Line<T>& to) const {
    if (whole) add_conjugates(to, n, !forward);
  }
};

template <class T>
Lines<T> with_line(Lines<T> lines, const Line<T>& line) {
  lines.first = line;
  return lines;
}

template <class T>
void Transform<T>::across(const Buffers<T>& buffers, const Lines<T>& from,
                          const Lines<T>& to) const {
  if (kind == Kind::complex) {
    const auto in = with_line(from, forward ? from.first : from.first.swapped());
    const auto out = with_line(to, forward ? to.first : to.first.swapped());
    if (!plan->convolution) return run_across(*plan, buffers, in, out, scale);
    gather(in, n, buffers.second);
    return scatter(run_in_buffers(*plan, buffers), n, scale, out);
  }
  if (kind == Kind::real_to_complex) {
    gather(is_packed() ? with_line(from, packed(from.first)) : from, inner().n, buffers.second);
    auto* result = run_in_buffers(inner(), buffers);
    if (is_packed()) {
      take_apart(result, n / 2, plan->roots.data(), buffers.other(result));
      result = buffers.other(result);
    }
    return scatter(result, n / 2 + 1, scale, to);
  }
  gather(from, n / 2 + 1, buffers.first);
  if (!is_packed()) {
    complete(buffers.first, n, buffers.second);
    return scatter(run_in_buffers(*plan, buffers), n, scale, with_line(to, to.first.swapped()));
  }
  put_together(buffers.first, n / 2, plan->roots.data(), buffers.second);
  scatter(run_in_buffers(inner(), buffers), n / 2, scale,
          with_line(to, packed(to.first).swapped()));
}

template <class T>
void Transform<T>::along(const Buffers<T>& buffers, const Line<T>& from, const Line<T>& to) const {
  if (kind == Kind::complex)
    return run_along(*plan, buffers, forward ? from : from.swapped(), forward ? to : to.swapped(),
                     scale);
  constexpr int64_t kStride = 2 * kFftLanes<T>;
  if (kind == Kind::real_to_complex) {
    auto* const spectrum =
        run_to_buffer<Layout::along>(inner(), InPairs<T, false>{from.re, kStride}, buffers);
    return take_apart_along(spectrum, n / 2, plan->roots.data(), scale, to.re);
  }
  put_together_along(from.re, n / 2, plan->roots.data(), buffers.second);
  run_passes<Layout::along>(inner(), InBuffer<T>{buffers.second},
                            InPairs<T, true>{to.re, kStride, scale},
                            with_result(inner(), buffers, static_cast<const T*>(nullptr), to.re));
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

/// Lines that are contiguous, one after the other.
template <class T>
void transform_along(const Transform<T>& transform, const View& in, const View& out, int dim) {
  const auto body = [&](int64_t begin, int64_t end) {
    const BufferMemory<T> memory(transform.inner().longest() / kFftLanes<T>);
    Starts starts_in(in, dim, begin), starts_out(out, dim, begin);
    const Line<T> first_in = line_of<T>(in, dim), first_out = line_of<T>(out, dim);
    for (int64_t line = begin; line < end; ++line) {
      int64_t offset = 0;
      const Line<T> from = first_in.at(starts_in.take(1, &offset));
      const Line<T> to = first_out.at(starts_out.take(1, &offset));
      transform.along(memory.buffers(), from, to);
      transform.finish(to);
    }
  };
  parallel_for(out.numel / out.sizes[dim], std::max<int64_t>(1, kSerialPoints / transform.n), body);
}

template <class T>
void transform_dim(const Transform<T>& transform, const View& in, const View& out, int dim) {
  if (transform.runs_along() && in.strides[dim] == 1 && out.strides[dim] == 1)
    return transform_along(transform, in, out, dim);
  constexpr int kLanes = kFftLanes<T>;
  const int64_t lines = out.numel / out.sizes[dim], groups = (lines + kLanes - 1) / kLanes;
  const FftPlan<T>& inner = transform.inner();
  const auto body = [&](int64_t begin, int64_t end) {
    Starts starts_in(in, dim, begin * kLanes), starts_out(out, dim, begin * kLanes);
    const Line<T> first_in = line_of<T>(in, dim), first_out = line_of<T>(out, dim);
    const bool across = inner.runs_across();
    const BufferMemory<T> memory(across ? std::max(transform.n, inner.longest()) : 1);
    for (int64_t group = begin; group < end; ++group) {
      const int count = static_cast<int>(std::min<int64_t>(kLanes, lines - group * kLanes));
      Lines<T> from, to;
      from.count = to.count = count;
      from.first = first_in.at(starts_in.take(count, from.offsets));
      to.first = first_out.at(starts_out.take(count, to.offsets));
      const bool together = across && (2 * count >= kLanes || !inner.runs_alone());
      if (together) transform.across(memory.buffers(), from, to);
      for (int lane = 0; lane < count; ++lane) {
        const Line<T> result = to.first.at(to.offsets[lane]);
        if (!together) transform.line(from.first.at(from.offsets[lane]), result);
        transform.finish(result);
      }
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
  bool whole = false;
};

template <class T>
void run_step(const Step& step, const View& in, const View& out) {
  const bool real = step.kind != Kind::complex && step.n % 2 == 0;
  transform_dim(
      Transform<T>{step.kind, step.n, step.forward, step.whole, static_cast<T>(step.scale),
                   fft_plan<T>(step.n, real ? FftLines::real_lines : FftLines::complex_lines,
                               FftKernel<T>{transform_pairs<T>, kFftLanes<T>})},
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

void real_kernel(const KernelContext& context, const FftAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  const int dim = static_cast<int>(wrapped(context, attrs.dim)[0]);
  run({Kind::real_to_complex, dim, in.sizes[dim], attrs.forward, attrs.scale, true}, in, out);
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
  fft_real_op.set_kernel(DeviceType::cpu, real_kernel);
  fft_c2r_op.set_kernel(DeviceType::cpu, c2r_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

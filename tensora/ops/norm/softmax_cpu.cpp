#include "tensora/ops/norm/softmax.h"

#include <algorithm>
#include <cstring>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/reduce.h"
#include "tensora/backend/cpu/stream.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/norm/lines.h"
#include "tensora/ops/norm/softmax_math.h"
#include "tensora/ops/reduce/extremum_functors.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kHeld = 8192;           // elements that are converted once and kept
constexpr int64_t kColumns = 512;         // lines side by side, at most
constexpr int64_t kTileOfL2 = 32 * 1024;  // elements of such a group that stay in the cache
constexpr int64_t kGrain = 16 * 1024;

// Elements of one array, in runs. Where they are adjacent and of the compute type they are used
// in place, otherwise they pass through a buffer.
template <class C>
struct Side {
  DType dtype;
  int64_t bytes;
  bool stream = false;  // large results pass through the buffer too

  explicit Side(DType of) : dtype(of), bytes(static_cast<int64_t>(element_size(of))) {}
  Side(const View& out, int64_t run) : Side(out.dtype) {
    stream = dtype == dtype_of<C> && streams(out, run);
  }
  bool in_place(int64_t step) const { return dtype == dtype_of<C> && step == bytes && !stream; }
  const C* read(const char* from, int64_t step, int64_t n, C* buffer) const {
    if (in_place(step)) return reinterpret_cast<const C*>(from);
    load_fn<C>(dtype)(from, step / bytes, n, buffer);
    return buffer;
  }
  void write(const C* values, char* to, int64_t step, int64_t n) const {
    if (stream)
      copy_streaming(to, reinterpret_cast<const char*>(values), static_cast<size_t>(n) * sizeof(C));
    else if (!in_place(step))
      store_fn<C>(dtype)(values, to, step / bytes, n);
  }
};

// Whether the elements of a line are adjacent in the output; otherwise lines that are neighbours
// there are taken together.
template <int K>
bool runs_along(const Lines<K>& lines) {
  return lines.dims == 0 || lines.strides[0][0] >= lines.step[0];
}

// The sum of e^(x - shift); with kStore also the terms, which may take the place of x.
template <bool kStore, class C>
double sum_of_decays(const C* x, C shift, int64_t n, C* y) {
  constexpr int lanes = 128 / static_cast<int>(sizeof(C));
  alignas(64) C lane[lanes] = {};
  const auto take = [&](int64_t i, int width) {
#pragma omp simd
    for (int j = 0; j < width; ++j) {
      const C value = decay(x[i + j] - shift);
      if constexpr (kStore) y[i + j] = value;
      lane[j] += value;
    }
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) take(i, lanes);
  take(i, static_cast<int>(n - i));
  double total = 0;
  for (C part : lane) total += part;
  return total;
}

// The results of a run: `x` holds the exponentials already, or the elements. `shift` and `scale`
// give element j's of n.
template <bool kLog, class C, class Shift, class Scale>
void finish_run(const C* x, bool exponentials, int64_t n, Shift shift, Scale scale, C* y) {
  if (kLog) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - shift(j)) - scale(j);
  } else if (exponentials) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = x[j] * scale(j);
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = decay(x[j] - shift(j)) * scale(j);
  }
}

/// The arithmetic of a line: softmax and log_softmax.
template <class C, bool kLog>
class Forward {
 public:
  static constexpr int kArrays = 2;

  Forward(const Lines<2>& lines, const KernelContext& context)
      : lines_(lines),
        out_(context.output(), runs_along(lines) && lines.length <= kHeld ? lines.length : 1),
        in_(context.input(0).dtype) {}

  void along(int64_t line) const {
    alignas(64) C held[kHeld];
    const int64_t n = lines_.length;
    const char* const from = lines_.line_of(1, line);
    char* const to = lines_.line_of(0, line);
    const bool fits = n <= kHeld, in_place = out_.in_place(lines_.step[0]);
    const C* x = nullptr;
    const auto read = [&](int64_t first, int64_t count) {
      return in_.read(from + first * lines_.step[1], lines_.step[1], count, held);
    };
    const reductions::Extremum<C, true> extremum;
    C highest = extremum.lane();
    for (int64_t i = 0; i < n; i += kHeld) {
      const int64_t count = std::min(kHeld, n - i);
      x = read(i, count);
      highest = extremum.merge(highest, reduce_block(extremum, x, count));
    }
    const auto target = [&](int64_t i) { return in_place ? reinterpret_cast<C*>(to) + i : held; };
    const bool keeps = !kLog && (fits || in_place);
    double total = 0;
    for (int64_t i = 0; i < n; i += kHeld) {
      const int64_t count = std::min(kHeld, n - i);
      if (!fits) x = read(i, count);
      total += keeps ? sum_of_decays<true>(x, highest, count, target(i))
                     : sum_of_decays<false>(x, highest, count, held);
    }
    const C scale = static_cast<C>(kLog ? math::log(total) : 1 / total);
    for (int64_t i = 0; i < n; i += kHeld) {
      const int64_t count = std::min(kHeld, n - i);
      C* const y = target(i);
      if (keeps)
        x = y;
      else if (!fits)
        x = read(i, count);
      finish_run<kLog>(
          x, keeps, count, [&](int64_t) { return highest; }, [&](int64_t) { return scale; }, y);
      out_.write(y, to + i * lines_.step[0], lines_.step[0], count);
    }
  }

  // n lines from line `first` on, whose elements are adjacent across.
  void beside(int64_t first, int64_t n) const {
    alignas(64) C held[kHeld], buffer[kColumns], highest[kColumns], scale[kColumns], run[kColumns];
    double total[kColumns];
    const int64_t length = lines_.length;
    const char* const from = lines_.line_of(1, first);
    char* const to = lines_.line_of(0, first);
    const int64_t across = lines_.strides[0][0], across_in = lines_.strides[1][0];
    const bool fits = length * n <= kHeld, in_place = out_.in_place(across);
    const auto read = [&](int64_t i) {
      return in_.read(from + i * lines_.step[1], across_in, n, fits ? held + i * n : buffer);
    };
    const reductions::Extremum<C, true> extremum;
    std::fill_n(highest, n, extremum.lane());
    for (int64_t i = 0; i < length; ++i) {
      const C* const x = read(i);
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) highest[j] = extremum.step(highest[j], x[j]);
    }
    const auto again = [&](int64_t i) {
      return fits && !in_.in_place(across_in) ? held + i * n : read(i);
    };
    const auto target = [&](int64_t i) {
      return in_place ? reinterpret_cast<C*>(to + i * lines_.step[0])
             : fits   ? held + i * n
                      : buffer;
    };
    const bool keeps = !kLog && (fits || in_place);
    std::fill_n(total, n, 0.0);
    for (int64_t i = 0; i < length; ++i) {
      if (i % kRowBlock == 0) std::fill_n(run, n, C(0));
      const C* const x = again(i);
      C* const y = keeps ? target(i) : nullptr;
      if (keeps) {
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) {
          const C value = decay(x[j] - highest[j]);
          y[j] = value;
          run[j] += value;
        }
      } else {
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) run[j] += decay(x[j] - highest[j]);
      }
      if ((i + 1) % kRowBlock == 0 || i + 1 == length)
        for (int64_t j = 0; j < n; ++j) total[j] += run[j];
    }
    for (int64_t j = 0; j < n; ++j)
      scale[j] = static_cast<C>(kLog ? math::log(total[j]) : 1 / total[j]);
    for (int64_t i = 0; i < length; ++i) {
      C* const y = target(i);
      const C* const x = keeps ? y : again(i);
      finish_run<kLog>(
          x, keeps, n, [&](int64_t j) { return highest[j]; }, [&](int64_t j) { return scale[j]; },
          y);
      out_.write(y, to + i * lines_.step[0], across, n);
    }
  }

 private:
  const Lines<2>& lines_;
  const Side<C> out_, in_;
};

/// What the backward sums up over a line, and what it makes of the sum.
template <class C, bool kLog>
struct BackwardOf {
  static C term(C grad, C y) { return kLog ? grad : grad * y; }
  static C result(C grad, C y, C sum) { return kLog ? grad - decay(y) * sum : (grad - sum) * y; }
};

template <class C, bool kLog>
class Backward {
 public:
  static constexpr int kArrays = 3;
  using Of = BackwardOf<C, kLog>;

  Backward(const Lines<3>& lines, const KernelContext& context)
      : lines_(lines),
        out_(context.output(), runs_along(lines) ? lines.length : 1),
        grad_(context.input(0).dtype),
        y_(context.input(1).dtype) {}

  void along(int64_t line) const {
    alignas(64) C held[2][kRunBlock], result[kRunBlock];
    const int64_t n = lines_.length;
    const char *const grads = lines_.line_of(1, line), *const ys = lines_.line_of(2, line);
    char* const to = lines_.line_of(0, line);
    const bool in_place = out_.in_place(lines_.step[0]);
    const C *grad = nullptr, *y = nullptr;
    const auto read = [&](int64_t i, int64_t count) {
      grad = grad_.read(grads + i * lines_.step[1], lines_.step[1], count, held[0]);
      y = y_.read(ys + i * lines_.step[2], lines_.step[2], count, held[1]);
    };
    double total = 0;
    for (int64_t i = 0; i < n; i += kRunBlock) {
      const int64_t count = std::min(kRunBlock, n - i);
      read(i, count);
      total += sum_of_terms(grad, y, count);
    }
    const C sum = static_cast<C>(total);
    for (int64_t i = 0; i < n; i += kRunBlock) {
      const int64_t count = std::min(kRunBlock, n - i);
      if (n > kRunBlock) read(i, count);
      C* const dx = in_place ? reinterpret_cast<C*>(to) + i : result;
#pragma omp simd
      for (int64_t j = 0; j < count; ++j) dx[j] = Of::result(grad[j], y[j], sum);
      out_.write(dx, to + i * lines_.step[0], lines_.step[0], count);
    }
  }

  void beside(int64_t first, int64_t n) const {
    alignas(64) C held[2][kColumns], result[kColumns], sum[kColumns], run[kColumns];
    double total[kColumns];
    const int64_t length = lines_.length;
    const char *const grads = lines_.line_of(1, first), *const ys = lines_.line_of(2, first);
    char* const to = lines_.line_of(0, first);
    const int64_t across = lines_.strides[0][0];
    const bool in_place = out_.in_place(across);
    const C *grad = nullptr, *y = nullptr;
    const auto read = [&](int64_t i) {
      grad = grad_.read(grads + i * lines_.step[1], lines_.strides[1][0], n, held[0]);
      y = y_.read(ys + i * lines_.step[2], lines_.strides[2][0], n, held[1]);
    };
    std::fill_n(total, n, 0.0);
    for (int64_t i = 0; i < length; ++i) {
      if (i % kRowBlock == 0) std::fill_n(run, n, C(0));
      read(i);
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) run[j] += Of::term(grad[j], y[j]);
      if ((i + 1) % kRowBlock == 0 || i + 1 == length)
        for (int64_t j = 0; j < n; ++j) total[j] += run[j];
    }
    for (int64_t j = 0; j < n; ++j) sum[j] = static_cast<C>(total[j]);
    for (int64_t i = 0; i < length; ++i) {
      read(i);
      C* const dx = in_place ? reinterpret_cast<C*>(to + i * lines_.step[0]) : result;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) dx[j] = Of::result(grad[j], y[j], sum[j]);
      out_.write(dx, to + i * lines_.step[0], across, n);
    }
  }

 private:
  static double sum_of_terms(const C* grad, const C* y, int64_t n) {
    constexpr int lanes = 256 / static_cast<int>(sizeof(C));
    alignas(64) C lane[lanes] = {};
    const auto take = [&](int64_t i, int width) {
#pragma omp simd
      for (int j = 0; j < width; ++j) lane[j] += Of::term(grad[i + j], y[i + j]);
    };
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) take(i, lanes);
    take(i, static_cast<int>(n - i));
    double total = 0;
    for (C part : lane) total += part;
    return total;
  }

  const Lines<3>& lines_;
  const Side<C> out_, grad_, y_;
};

// How lines are grouped depends on the shape alone.
template <class Job, int K>
void each_line(const Job& job, const Lines<K>& lines) {
  const int64_t length = lines.length;
  if (runs_along(lines)) {
    parallel_for(lines.count, std::max<int64_t>(1, kGrain / length),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t line = begin; line < end; ++line) job.along(line);
                   finish_streaming();
                 });
    return;
  }
  const int64_t columns = lines.sizes[0];
  const int64_t width =
      std::min(columns, std::clamp<int64_t>(kTileOfL2 / length / 16 * 16, 16, kColumns));
  const int64_t groups = (columns + width - 1) / width;
  parallel_for(lines.count / columns * groups, std::max<int64_t>(1, kGrain / (length * width)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t k = begin; k < end; ++k) {
                   const int64_t first = k % groups * width;
                   job.beside(k / groups * columns + first, std::min(width, columns - first));
                 }
               });
}

template <template <class, bool> class Job, bool kLog>
void softmax_kernel(const KernelContext& context, const SoftmaxAttrs& attrs) {
  const View& out = context.output();
  if (out.numel == 0) return;
  const int dim = wrap_dim(attrs.dim, out.dim(), context.op);
  // A narrow result may belong to a wide computation: that of the gradient of a cast input.
  visit_compute_floating(promote_types(out.dtype, context.in.back()->dtype), [&]<class C>() {
    constexpr int kArrays = Job<C, kLog>::kArrays;
    const View* views[kArrays] = {&out};
    for (int k = 1; k < kArrays; ++k) views[k] = context.in[static_cast<size_t>(k - 1)];
    const auto lines = make_lines<kArrays>(views, dim);
    each_line(Job<C, kLog>(lines, context), lines);
  });
}

}  // namespace

void register_softmax_cpu() {
  softmax_op.set_kernel(DeviceType::cpu, softmax_kernel<Forward, false>);
  log_softmax_op.set_kernel(DeviceType::cpu, softmax_kernel<Forward, true>);
  softmax_backward_op.set_kernel(DeviceType::cpu, softmax_kernel<Backward, false>);
  log_softmax_backward_op.set_kernel(DeviceType::cpu, softmax_kernel<Backward, true>);
}

}  // namespace tensora::cpu::TENSORA_ISA

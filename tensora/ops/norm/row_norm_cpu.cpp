#include "tensora/ops/norm/row_norm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensora/backend/cpu/generate.h"
#include "tensora/backend/cpu/parts.h"
#include "tensora/backend/cpu/reduce.h"
#include "tensora/backend/cpu/stream.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/random/random_tile.h"
#include "tensora/ops/reduce/variance_functors.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kHeld = 4096;  // elements of a row that are in the compute type at a time
constexpr int64_t kGrain = 16 * 1024;

/// Null if an optional input was left out.
const View* optional_input(const KernelContext& context, size_t i) {
  return i < context.in.size() ? context.in[i] : nullptr;
}

/// An array in row-major order, read in runs of the compute type.
template <class C>
class Reader {
 public:
  explicit Reader(const View* view)
      : view_(view), load_(view ? load_fn<C>(view->dtype) : nullptr) {}
  explicit operator bool() const { return view_ != nullptr; }
  const C* read(int64_t start, int64_t n, C* buffer) const {
    if (view_->contiguous && view_->dtype == dtype_of<C>) return view_->as<const C>() + start;
    if (view_->contiguous)
      load_(view_->as<char>() + start * static_cast<int64_t>(element_size(view_->dtype)), 1, n,
            buffer);
    else
      gather_rows(*view_, load_, start, n, buffer, sizeof(C));
    return buffer;
  }

 private:
  const View* view_;
  LoadFn load_;
};

/// A contiguous array that is written in runs.
template <class C>
class Writer {
 public:
  /// Large results are streamed if they come in runs of `row` elements; 0: never.
  Writer(const View& view, int64_t row)
      : view_(view),
        store_(store_fn<C>(view.dtype)),
        in_place_(view.dtype == dtype_of<C>),
        stream_(in_place_ && row > 0 && streams(view, row)) {}
  /// Where to compute a run: in place if that is possible.
  C* place(int64_t start, C* buffer) const {
    return in_place_ && !stream_ ? view_.as<C>() + start : buffer;
  }
  void write(const C* values, int64_t start, int64_t n) const {
    if (stream_)
      copy_streaming(reinterpret_cast<char*>(view_.as<C>() + start),
                     reinterpret_cast<const char*>(values), static_cast<size_t>(n) * sizeof(C));
    if (in_place_) return;
    store_(values, view_.as<char>() + start * static_cast<int64_t>(element_size(view_.dtype)), 1,
           n);
  }

 private:
  const View& view_;
  StoreFn store_;
  bool in_place_, stream_;
};

/// A whole parameter in the compute type; `fallback` if it was left out.
template <class C>
class Parameter {
 public:
  Parameter(const View* view, int64_t n, C fallback) {
    const Reader<C> reader(view);
    if (view && view->contiguous && view->dtype == dtype_of<C>) {
      values_ = view->as<const C>();
      return;
    }
    copy_.resize(static_cast<size_t>(n));
    if (view)
      reader.read(0, n, copy_.data());
    else
      std::fill_n(copy_.data(), n, fallback);
    values_ = copy_.data();
  }
  const C* at(int64_t i) const { return values_ + i; }

 private:
  const C* values_;
  std::vector<C> copy_;
};

/// Multiplies a run by 1 / (1 - p) where its elements are kept, else by 0.
template <class C>
class Dropping {
 public:
  Dropping(double p, uint64_t seed, uint64_t offset)
      : keep_{seed, offset, 1 - p}, factor_(p < 1 ? static_cast<C>(1 / (1 - p)) : C(0)) {}
  explicit operator bool() const { return keep_.p < 1; }
  void apply(int64_t start, int64_t n, C* x) const {
    constexpr int64_t block = kRandomLanes * kValuesPerCounter<float>;
    alignas(64) float mask[kGenerateTile];
    const int64_t end = start + n;
    for (int64_t at = start / block * block; at < end; at += kGenerateTile) {
      const int64_t first = std::max(at, start), last = std::min(at + kGenerateTile, end);
      random_tile<Bernoulli, float>(&keep_, at, last - at, mask);
      const float* const kept = mask + (first - at);
      C* const values = x + (first - start);
#pragma omp simd
      for (int64_t i = 0; i < last - first; ++i) values[i] *= static_cast<C>(kept[i]) * factor_;
    }
  }

 private:
  Bernoulli keep_;
  C factor_;
};

// ---- forward -----------------------------------------------------------------------------------

template <class C>
struct Statistics {
  C mean, rstd;
};

template <class C>
Statistics<C> statistics_of(const Reader<C>& reader, int64_t start, int64_t n, bool centred,
                            double eps, C* held, const C*& x) {
  reductions::Moments moments{0, 0, 0};
  double squares = 0;
  const reductions::Variance<C> variance{{}, 1, false};
  const reductions::Norm2<C> square;
  for (int64_t i = 0; i < n; i += kHeld) {
    const int64_t count = std::min(kHeld, n - i);
    x = reader.read(start + i, count, held);
    if (centred)
      moments = reductions::combine_moments(moments, reduce_run(variance, x, count));
    else
      squares += square.widen(reduce_block(square, x, count));
  }
  const double count = static_cast<double>(n);
  if (!centred) return {0, static_cast<C>(1 / math::sqrt(squares / count + eps))};
  return {static_cast<C>(n == 0 ? squares / count : moments.mean),
          static_cast<C>(1 / math::sqrt(moments.distance / count + eps))};
}

struct NormJob {
  const View *x, *residual, *weight, *bias, *input_bias;  // null: none
  const View *y, *sum, *mean, *rstd;
  double eps, p;
  uint64_t seed, offset;
};

// The sum of a row, rounded as it is stored.
template <class C>
void add_row(const NormJob& job, const Reader<C>& input, const Reader<C>& residual,
             const Reader<C>& input_bias, const Dropping<C>& dropping, int64_t start, int64_t n) {
  alignas(64) C a[kHeld], b[kHeld], result[kHeld];
  const Writer<C> writer(*job.sum, 0);  // it is read again
  for (int64_t i = 0; i < n; i += kHeld) {
    const int64_t count = std::min(kHeld, n - i);
    C* const to = writer.place(start + i, result);
    const C* const x = input.read(start + i, count, a);
    if (input_bias) {
      const C* const extra = input_bias.read(i, count, b);
#pragma omp simd
      for (int64_t j = 0; j < count; ++j) to[j] = x[j] + extra[j];
    } else if (to != x) {
      std::copy_n(x, count, to);
    }
    if (dropping) dropping.apply(start + i, count, to);
    const C* const other = residual.read(start + i, count, b);
#pragma omp simd
    for (int64_t j = 0; j < count; ++j) to[j] += other[j];
    writer.write(to, start + i, count);
  }
}

template <class C>
void norm_rows(const NormJob& job, int64_t n) {
  const int64_t rows = job.rstd->numel;
  const bool centred = job.mean != nullptr;
  const Reader<C> input(job.x), residual(job.residual), input_bias(job.input_bias);
  const Reader<C> x(job.sum ? job.sum : job.x);
  const Writer<C> y(*job.y, n);
  const Parameter<C> weight(job.weight, n, 1), bias(job.bias, n, 0);
  const Dropping<C> dropping(job.p, job.seed, job.offset);
  parallel_for(rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n)),
               [&](int64_t begin, int64_t end) {
                 alignas(64) C held[kHeld], result[kHeld];
                 for (int64_t row = begin; row < end; ++row) {
                   const int64_t start = row * n;
                   if (job.sum) add_row(job, input, residual, input_bias, dropping, start, n);
                   const C* values = nullptr;
                   const auto [mean, rstd] =
                       statistics_of(x, start, n, centred, job.eps, held, values);
                   if (centred) job.mean->as<C>()[row] = mean;
                   job.rstd->as<C>()[row] = rstd;
                   for (int64_t i = 0; i < n; i += kHeld) {
                     const int64_t count = std::min(kHeld, n - i);
                     if (n > kHeld) values = x.read(start + i, count, held);
                     const C *const w = weight.at(i), *const b = bias.at(i);
                     C* const to = y.place(start + i, result);
#pragma omp simd
                     for (int64_t j = 0; j < count; ++j)
                       to[j] = (values[j] - mean) * rstd * w[j] + b[j];
                     y.write(to, start + i, count);
                   }
                 }
                 finish_streaming();
               });
}

void run_norm(const NormJob& job, const Shape& normalized_shape) {
  visit_compute_floating(job.sum ? job.sum->dtype : job.x->dtype,
                         [&]<class C>() { norm_rows<C>(job, normalized_shape.numel()); });
}

void layer_norm_kernel(const KernelContext& context, const LayerNormAttrs& attrs) {
  run_norm({.x = &context.input(0),
            .residual = nullptr,
            .weight = optional_input(context, 1),
            .bias = optional_input(context, 2),
            .input_bias = nullptr,
            .y = &context.output(0),
            .sum = nullptr,
            .mean = &context.output(1),
            .rstd = &context.output(2),
            .eps = attrs.eps,
            .p = 0,
            .seed = 0,
            .offset = 0},
           attrs.normalized_shape);
}

void rms_norm_kernel(const KernelContext& context, const RmsNormAttrs& attrs) {
  run_norm({.x = &context.input(0),
            .residual = nullptr,
            .weight = optional_input(context, 1),
            .bias = nullptr,
            .input_bias = nullptr,
            .y = &context.output(0),
            .sum = nullptr,
            .mean = nullptr,
            .rstd = &context.output(1),
            .eps = rms_eps(attrs.eps, context.input(0).dtype),
            .p = 0,
            .seed = 0,
            .offset = 0},
           attrs.normalized_shape);
}

template <bool centre>
void add_norm_kernel(const KernelContext& context, const AddNormAttrs& attrs) {
  const DType dtype = context.input(1).dtype;
  run_norm({.x = &context.input(0),
            .residual = &context.input(1),
            .weight = optional_input(context, 2),
            .bias = centre ? optional_input(context, 3) : nullptr,
            .input_bias = optional_input(context, centre ? 4 : 3),
            .y = &context.output(0),
            .sum = &context.output(1),
            .mean = centre ? &context.output(2) : nullptr,
            .rstd = &context.output(centre ? 3 : 2),
            .eps = centre ? attrs.eps.value_or(1e-5) : rms_eps(attrs.eps, dtype),
            .p = attrs.p,
            .seed = attrs.seed,
            .offset = attrs.offset},
           attrs.normalized_shape);
}

// ---- backward ----------------------------------------------------------------------------------

// Sums over rows are taken part by part, in parts that depend on the shape alone.
constexpr int64_t kMostParts = 64, kLeastRows = 16;

struct GradientJob {
  const View *grad, *x, *mean, *weight, *grad_of_sum;  // null: none
  const View* rstd;
  const View *dx, *dinput, *dweight, *dbias;  // null: not wanted
  double p;
  uint64_t seed, offset;
};

template <class C>
class GradientRows {
 public:
  GradientRows(const GradientJob& job, int64_t n)
      : job_(job),
        n_(n),
        grad_(job.grad),
        x_(job.x),
        mean_(job.mean),
        rstd_(job.rstd),
        grad_of_sum_(job.grad_of_sum),
        weight_(job.weight, n, 1),
        dropping_(job.p, job.seed, job.offset) {}

  void run() const {
    const int64_t rows = job_.rstd->numel;
    const int64_t per_part = std::max(kLeastRows, (rows + kMostParts - 1) / kMostParts);
    const int64_t parts = (rows + per_part - 1) / per_part;
    const bool sums = job_.dweight || job_.dbias;
    std::vector<C> partial(static_cast<size_t>(sums ? 2 * parts * n_ : 0));
    parallel_for(parts, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, per_part * n_)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t part = begin; part < end; ++part) {
                     C* const sum = sums ? partial.data() + 2 * part * n_ : nullptr;
                     const int64_t last = std::min(rows, (part + 1) * per_part);
                     for (int64_t row = part * per_part; row < last; ++row) of_row(row, sum);
                   }
                   finish_streaming();
                 });
    if (job_.dweight) collect(partial.data(), parts, *job_.dweight);
    if (job_.dbias) collect(partial.data() + n_, parts, *job_.dbias);
  }

 private:
  struct Coefficients {
    C mean, rstd, constant, slope;  // dx = rstd * (g w - constant - slope * value)
  };

  Coefficients look_at(int64_t row, C (&held)[3][kHeld], const C*& grad, const C*& x) const {
    C one[2];
    const C mean = mean_ ? *mean_.read(row, 1, one) : C(0), rstd = *rstd_.read(row, 1, one + 1);
    double constant = 0, slope = 0;
    for (int64_t i = 0; i < n_; i += kHeld) {
      const int64_t count = std::min(kHeld, n_ - i);
      grad = grad_.read(row * n_ + i, count, held[0]);
      x = x_.read(row * n_ + i, count, held[1]);
      const C* const w = weight_.at(i);
      constexpr int lanes = 128 / static_cast<int>(sizeof(C));
      alignas(64) C plain[lanes] = {}, along[lanes] = {};
      const auto take = [&](int64_t k, int width) {
#pragma omp simd
        for (int j = 0; j < width; ++j) {
          const C scaled = grad[k + j] * w[k + j];
          plain[j] += scaled;
          along[j] += scaled * ((x[k + j] - mean) * rstd);
        }
      };
      int64_t k = 0;
      for (; k + lanes <= count; k += lanes) take(k, lanes);
      take(k, static_cast<int>(count - k));
      for (C part : plain) constant += part;
      for (C part : along) slope += part;
    }
    const double count = static_cast<double>(n_);
    return {mean, rstd, static_cast<C>(mean_ ? constant / count : 0),
            static_cast<C>(slope / count)};
  }

  // `sum`: n sums for the weight, then n for the bias; or null.
  void of_row(int64_t row, C* sum) const {
    alignas(64) C held[3][kHeld], result[kHeld];
    const C *grad = nullptr, *x = nullptr;
    const Coefficients c = look_at(row, held, grad, x);
    const Writer<C> dx(*job_.dx, n_), dinput(job_.dinput ? *job_.dinput : *job_.dx, n_);
    for (int64_t i = 0; i < n_; i += kHeld) {
      const int64_t count = std::min(kHeld, n_ - i), start = row * n_ + i;
      if (n_ > kHeld) {
        grad = grad_.read(start, count, held[0]);
        x = x_.read(start, count, held[1]);
      }
      const C* const w = weight_.at(i);
      if (sum) {
        C *const of_weight = sum + i, *const of_bias = sum + n_ + i;
#pragma omp simd
        for (int64_t j = 0; j < count; ++j) {
          of_weight[j] += grad[j] * ((x[j] - c.mean) * c.rstd);
          of_bias[j] += grad[j];
        }
      }
      C* const to = dx.place(start, result);
#pragma omp simd
      for (int64_t j = 0; j < count; ++j) {
        const C value = (x[j] - c.mean) * c.rstd;
        to[j] = c.rstd * (grad[j] * w[j] - c.constant - c.slope * value);
      }
      if (grad_of_sum_) {
        const C* const other = grad_of_sum_.read(start, count, held[2]);
#pragma omp simd
        for (int64_t j = 0; j < count; ++j) to[j] += other[j];
      }
      dx.write(to, start, count);
      if (!job_.dinput) continue;
      C* const dropped = dinput.place(start, result);
      if (dropped != to) std::copy_n(to, count, dropped);
      if (dropping_) dropping_.apply(start, count, dropped);
      dinput.write(dropped, start, count);
    }
  }

  void collect(const C* partial, int64_t parts, const View& to) const {
    const Writer<C> writer(to, 0);
    parallel_for(n_, kHeld, [&](int64_t begin, int64_t end) {
      alignas(64) C result[kHeld];
      for (int64_t i = begin; i < end; i += kHeld) {
        const int64_t count = std::min(kHeld, end - i);
        C* const sum = writer.place(i, result);
        std::fill_n(sum, count, C(0));
        for (int64_t part = 0; part < parts; ++part) {
          const C* const from = partial + 2 * part * n_ + i;
#pragma omp simd
          for (int64_t j = 0; j < count; ++j) sum[j] += from[j];
        }
        writer.write(sum, i, count);
      }
    });
  }

  const GradientJob& job_;
  const int64_t n_;
  const Reader<C> grad_, x_, mean_, rstd_, grad_of_sum_;
  const Parameter<C> weight_;
  const Dropping<C> dropping_;
};

void norm_backward_kernel(const KernelContext& context, const NormBackwardAttrs& attrs) {
  size_t next = 1;
  const auto output_if = [&](bool wanted) { return wanted ? &context.output(next++) : nullptr; };
  GradientJob job{};
  job.grad = &context.input(0);
  job.x = &context.input(1);
  job.mean = context.in[2];
  job.rstd = &context.input(3);
  job.weight = optional_input(context, 4);
  job.grad_of_sum = optional_input(context, 5);
  job.dx = &context.output(0);
  job.dinput = output_if(attrs.apart());
  job.dweight = output_if(attrs.weight);
  job.dbias = output_if(attrs.bias);
  job.p = attrs.p;
  job.seed = attrs.seed;
  job.offset = attrs.offset;
  visit_compute_floating(
      job.x->dtype, [&]<class C>() { GradientRows<C>(job, attrs.normalized_shape.numel()).run(); });
}

}  // namespace

void register_row_norm_cpu() {
  layer_norm_op.set_kernel(DeviceType::cpu, layer_norm_kernel);
  rms_norm_op.set_kernel(DeviceType::cpu, rms_norm_kernel);
  add_layer_norm_op.set_kernel(DeviceType::cpu, add_norm_kernel<true>);
  add_rms_norm_op.set_kernel(DeviceType::cpu, add_norm_kernel<false>);
  norm_backward_op.set_kernel(DeviceType::cpu, norm_backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

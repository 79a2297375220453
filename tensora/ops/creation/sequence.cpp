#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/creation/sequence_op.h"

#include <algorithm>
#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/fit_scalar.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/nonzero.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/triangle.h"

namespace tensora {
namespace {

// The number of each element, as a tensor of the same shape.
Tensor positions(const Tensor& self) {
  return reshape(arange(self.numel(), {.device = self.device()}), self.sizes());
}

// See Linspace::position.
Tensor linspace_values(const Tensor& self, Scalar start, Scalar end, int64_t steps) {
  const double first = start.to<double>(), last = end.to<double>();
  const double step = steps > 1 ? (last - first) / static_cast<double>(steps - 1) : 0;
  const Tensor i = to(positions(self), kFloat64);
  const Tensor from_start = i * step + first;
  if (steps == 1) return from_start;
  return where(lt(i, steps / 2), from_start, last - (steps - 1 - i) * step);
}

// The sequences in other ops; arange has none.
Tensor values_of(const Tensor& self, const Linspace& a) {
  return linspace_values(self, a.start, a.end, a.steps);
}
Tensor values_of(const Tensor& self, const Logspace& a) {
  return pow(full({}, a.base, {.dtype = kFloat64, .device = self.device()}),
             linspace_values(self, a.start, a.end, a.steps));
}
Tensor values_of(const Tensor& self, const Eye& a) {
  const Tensor i = positions(self);
  const int64_t columns = std::max<int64_t>(a.columns, 1);  // an empty tensor may have none
  return eq(floor_divide(i, columns), remainder(i, columns));
}
Tensor values_of(const Tensor& self, const TriangleIndices& a) {
  const Tensor all = ones({a.rows, a.columns}, {.dtype = kBool, .device = self.device()});
  const Tensor places = nonzero(a.lower ? tril(all, a.diagonal) : triu(all, a.diagonal));
  return reshape(transpose(places, 0, 1), self.sizes());
}

void check_values(const Infer&, const Arange&) {}
void check_values(const Infer& infer, const Linspace& a) {
  infer.check(a.steps >= 0, "number of steps must not be negative, got ", a.steps);
}
void check_values(const Infer& infer, const Logspace& a) {
  infer.check(a.steps >= 0, "number of steps must not be negative, got ", a.steps);
}
void check_values(const Infer& infer, const Eye& a) {
  infer.check(a.columns > 0 || infer[0].numel() == 0, "columns must be above zero, got ",
              a.columns);
}
void check_values(const Infer& infer, const TriangleIndices& a) {
  infer.check(a.rows >= 0 && a.columns >= 0, "rows and columns must not be negative, got ", a.rows,
              " and ", a.columns);
  constexpr int64_t kMost = int64_t{1} << 61;  // counting must not overflow
  infer.check(a.rows < kMost && a.columns < kMost, "too many rows or columns: ", a.rows, " and ",
              a.columns);
  multiply_sizes(a.rows, a.columns, infer.op);
  infer.check(a.diagonal >= -a.rows - 1 && a.diagonal <= a.columns + 1, "diagonal ", a.diagonal,
              " is outside of ", a.rows, " rows and ", a.columns, " columns");
  infer.check(infer[0].numel() == 2 * a.count(), "expected space for ", a.count(), " pairs, got ",
              infer[0].numel(), " elements");
}

template <class Values>
consteval OpDef<Values> define_sequence(std::string_view name) {
  Op<Values> op{
      .name = name,
      .inputs = {"self"},
      .infer =
          [](Infer& infer, const Values& values) {
            check_values(infer, values);
            infer.output(infer[0].sizes(), infer[0].dtype());
          },
      .gradient = Gradient::not_differentiable,
  };
  if constexpr (std::is_same_v<Values, Arange>)
    op.primitive = true;
  else
    op.reference = [](Args in, const Values& values) {
      return Tensors{to(values_of(*in[0], values), in[0]->dtype())};
    };
  return define(op);
}

template <class Values>
Tensor sequence(const OpDef<Values>& op, const Shape& sizes, const Values& values, DType dtype,
                const TensorOptions& options) {
  TensorOptions plain{.dtype = options.dtype.value_or(dtype), .device = options.device};
  const Tensor result = empty_for(op.name, sizes, plain);
  {
    const no_grad silent;
    apply_inplace(op, {result}, values);
  }
  if (options.requires_grad) result.requires_grad_();
  return result;
}

int64_t arange_length(Scalar start, Scalar end, Scalar step) {
  const double from = start.to<double>(), to = end.to<double>(), by = step.to<double>();
  check(by != 0, "arange: step must not be zero");
  check(std::isfinite(from) && std::isfinite(to), "arange: unsupported range: ", from, " -> ", to);
  check(std::isfinite(by), "arange: step must be finite, got ", by);
  check((by > 0) == (to > from) || to == from, "arange: the bounds ", from, " -> ", to,
        " do not agree with the sign of step ", by);
  if (!start.is_floating() && !end.is_floating() && !step.is_floating()) {
    // The difference of two int64 fits into uint64.
    const auto first = start.to<uint64_t>(), last = end.to<uint64_t>();
    const auto magnitude = by > 0 ? step.to<uint64_t>() : -step.to<uint64_t>();
    const uint64_t distance = by > 0 ? last - first : first - last;
    const uint64_t length = distance / magnitude + (distance % magnitude != 0);
    check(length < (uint64_t{1} << 62), "arange: ", length, " elements are too many");
    return static_cast<int64_t>(length);
  }
  const double length = std::ceil((to - from) / by);
  check(length < 0x1p62, "arange: ", length, " elements are too many");
  return static_cast<int64_t>(length);
}

void check_steps(std::string_view op, int64_t steps) {
  check(steps >= 0, op, ": number of steps must not be negative, got ", steps);
}

Tensor triangle(const TriangleIndices& values, std::string_view op, const TensorOptions& options) {
  check(values.rows >= 0 && values.columns >= 0, op, ": row and col must not be negative, got ",
        values.rows, " and ", values.columns);
  const DType dtype = options.dtype.value_or(kInt64);
  check(dtype == kInt32 || dtype == kInt64, op, ": expected int32 or int64, got ", dtype);
  multiply_sizes(values.rows, values.columns, op);  // no triangle has more elements
  // Beyond the matrix a diagonal has no further effect, and must not overflow.
  TriangleIndices inside = values;
  inside.diagonal = std::clamp(values.diagonal, -values.rows - 1, values.columns + 1);
  return sequence(triangle_indices_op, {2, inside.count()}, inside, kInt64, options);
}

}  // namespace

constinit OpDef<Arange> arange_op = define_sequence<Arange>("arange");
constinit OpDef<Linspace> linspace_op = define_sequence<Linspace>("linspace");
constinit OpDef<Logspace> logspace_op = define_sequence<Logspace>("logspace");
constinit OpDef<Eye> eye_op = define_sequence<Eye>("eye");
constinit OpDef<TriangleIndices> triangle_indices_op =
    define_sequence<TriangleIndices>("triangle_indices");

void register_sequence(OpRegistry& registry) {
  registry.add(arange_op);
  registry.add(linspace_op);
  registry.add(logspace_op);
  registry.add(eye_op);
  registry.add(triangle_indices_op);
}

Tensor arange(Scalar end, const TensorOptions& options) { return arange(0, end, 1, options); }

Tensor arange(Scalar start, Scalar end, const TensorOptions& options) {
  return arange(start, end, 1, options);
}

Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions& options) {
  const bool floating = start.is_floating() || end.is_floating() || step.is_floating();
  check(options.dtype != kBool, "arange: bool is not supported");
  return sequence(arange_op, {arange_length(start, end, step)}, Arange{start, step},
                  floating ? default_dtype() : kInt64, options);
}

namespace {

// Part by part, in double.
Tensor complex_linspace(Scalar start, Scalar end, int64_t steps, const TensorOptions& options) {
  const Complex<double> from = start.to<Complex<double>>(), to = end.to<Complex<double>>();
  const TensorOptions plain{.dtype = kFloat64, .device = options.device};
  return complex(linspace(from.re, to.re, steps, plain), linspace(from.im, to.im, steps, plain));
}

DType sequence_dtype(Scalar start, Scalar end, const TensorOptions& options) {
  if (options.dtype) return *options.dtype;
  const bool complex = start.is_complex() || end.is_complex();
  return complex ? complex_dtype(default_dtype()) : default_dtype();
}

Tensor finished(const Tensor& values, DType dtype, const TensorOptions& options) {
  const Tensor result = to(values, dtype);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

}  // namespace

Tensor linspace(Scalar start, Scalar end, int64_t steps, const TensorOptions& options) {
  check_steps("linspace", steps);
  const DType dtype = sequence_dtype(start, end, options);
  if (is_complex(dtype))
    return finished(complex_linspace(start, end, steps, options), dtype, options);
  check(dtype != kBool, "linspace: bool is not supported");
  start =
      fit_scalar(start, dtype, "linspace");  // integer bounds are truncated before they are divided
  end = fit_scalar(end, dtype, "linspace");
  return sequence(linspace_op, {steps}, Linspace{start, end, steps}, default_dtype(), options);
}

Tensor logspace(Scalar start, Scalar end, int64_t steps, double base,
                const TensorOptions& options) {
  check_steps("logspace", steps);
  const DType dtype = sequence_dtype(start, end, options);
  if (is_complex(dtype)) {
    const Tensor powers = pow(Scalar(base), complex_linspace(start, end, steps, options));
    return finished(powers, dtype, options);
  }
  check(dtype != kBool, "logspace: bool is not supported");
  start = fit_scalar(start, dtype, "logspace");
  end = fit_scalar(end, dtype, "logspace");
  return sequence(logspace_op, {steps}, Logspace{start, end, steps, base}, default_dtype(),
                  options);
}

Tensor eye(int64_t n, const TensorOptions& options) { return eye(n, n, options); }

Tensor eye(int64_t n, int64_t m, const TensorOptions& options) {
  check(n >= 0, "eye: n must not be negative, got ", n);
  check(m >= 0, "eye: m must not be negative, got ", m);
  if (options.dtype && is_complex(*options.dtype))
    return finished(eye(n, m, {.dtype = kBool, .device = options.device}), *options.dtype, options);
  return sequence(eye_op, {n, m}, Eye{m}, default_dtype(), options);
}

Tensor tril_indices(int64_t row, int64_t col, int64_t offset, const TensorOptions& options) {
  return triangle({.rows = row, .columns = col, .diagonal = offset, .lower = true}, "tril_indices",
                  options);
}

Tensor triu_indices(int64_t row, int64_t col, int64_t offset, const TensorOptions& options) {
  return triangle({.rows = row, .columns = col, .diagonal = offset, .lower = false}, "triu_indices",
                  options);
}

}  // namespace tensora

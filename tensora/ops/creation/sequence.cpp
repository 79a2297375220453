#include "tensora/ops/creation/sequence.h"

#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/ops/creation/empty.h"

namespace tensora {
namespace {

template <class Values>
consteval OpDef<Values> define_sequence(std::string_view name) {
  return define(Op<Values>{
      .name = name,
      .infer =
          [](Infer& infer, const Values& values) {
            infer.expect_inputs(1);
            if constexpr (std::is_same_v<Values, TriangleIndices>)
              infer.check(infer[0].numel() == 2 * values.count(), "expected room for ",
                          values.count(), " pairs, got ", infer[0].numel(), " elements");
            infer.output(infer[0].sizes(), infer[0].dtype());
          },
      .gradient = Gradient::not_differentiable,
  });
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
    // The distance of two int64 fits into uint64.
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
  return sequence(triangle_indices_op, {2, values.count()}, values, kInt64, options);
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

Tensor linspace(Scalar start, Scalar end, int64_t steps, const TensorOptions& options) {
  check_steps("linspace", steps);
  return sequence(linspace_op, {steps}, Linspace{start, end, steps}, default_dtype(), options);
}

Tensor logspace(Scalar start, Scalar end, int64_t steps, double base,
                const TensorOptions& options) {
  check_steps("logspace", steps);
  return sequence(logspace_op, {steps}, Logspace{start, end, steps, base}, default_dtype(),
                  options);
}

Tensor eye(int64_t n, const TensorOptions& options) { return eye(n, n, options); }

Tensor eye(int64_t n, int64_t m, const TensorOptions& options) {
  check(n >= 0, "eye: n must not be negative, got ", n);
  check(m >= 0, "eye: m must not be negative, got ", m);
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

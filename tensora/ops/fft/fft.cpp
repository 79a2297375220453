// Registers nothing: functions of the transforms.
#include "tensora/ops/fft/fft.h"

#include <algorithm>
#include <cmath>

#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/fft/transforms.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/resample/pad.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/flip.h"
#include "tensora/ops/shape/slice.h"

namespace tensora::fft {
namespace {

using Norm = std::optional<std::string_view>;
using Sizes = std::optional<Shape>;
using OptionalDims = std::optional<Dims>;

/// What a call transforms: dims counted from 0, and the sizes that the input is given there.
struct Plan {
  std::string_view op;
  bool forward = true;
  Dims dims = {};
  Shape sizes = {};
};

/// The input as a floating or complex tensor; under autocast half types become float32, as in
/// PyTorch on the CPU.
Tensor promoted(std::string_view op, const Tensor& input) {
  if (is_autocast_enabled(DeviceType::cpu) && input.device().is_cpu() &&
      (input.dtype() == kFloat16 || input.dtype() == kBFloat16))
    return to(input, kFloat32);
  const Tensor x =
      input.is_complex() || input.is_floating_point() ? input : to(input, default_dtype());
  check(contains(kComplexDTypes | set_of(kFloat32) | set_of(kFloat64), x.dtype()), op,
        ": unsupported dtype ", x.dtype(), "; expected float32, float64 or a complex dtype");
  return x;
}

Tensor as_complex(const Tensor& x) { return x.is_complex() ? x : to(x, complex_dtype(x.dtype())); }

void check_real(std::string_view op, const Tensor& input) {
  check(!input.is_complex(), op, ": expects a real input tensor, but got ", input.dtype());
}

void check_size(std::string_view op, int64_t n) {
  check(n >= 1, op, ": invalid number of data points (", n, ") specified");
}

/// The factor of a transform of so many elements.
double scale_of(const Plan& plan, const Norm& norm, int64_t count) {
  if (norm == "ortho") return 1 / std::sqrt(static_cast<double>(count));
  check(!norm || norm == "backward" || norm == "forward", plan.op,
        ": norm must be \"backward\", \"forward\" or \"ortho\", got \"", norm.value_or(""), "\"");
  return (norm == "forward") == plan.forward ? 1 / static_cast<double>(count) : 1;
}

/// The input cut off, or filled up with zeros, at the end of the dims.
Tensor resized(const Tensor& input, const Plan& plan) {
  Tensor x = input;
  ConstantPadAttrs padding{Shape::filled(x.dim(), 0), Shape::filled(x.dim(), 0)};
  bool longer = false;
  for (int i = 0; i < plan.dims.size(); ++i) {
    const int dim = static_cast<int>(plan.dims[i]);
    const int64_t size = x.size(dim), wanted = plan.sizes[i];
    if (wanted < size) x = narrow(x, dim, 0, wanted);
    padding.after[dim] = std::max<int64_t>(0, wanted - size);
    longer |= wanted > size;
  }
  return longer ? apply(constant_pad_op, {x}, padding) : x;
}

void check_has_dims(std::string_view op, const Tensor& input) {
  check(input.dim() > 0, op, ": expected a tensor that has dims, got a 0-dim tensor");
}

/// One dim, whose size is that of the transform.
Plan plan_line(std::string_view op, bool forward, const Tensor& input, int64_t dim,
               std::optional<int64_t> n) {
  check_has_dims(op, input);
  const int at = wrap_dim(dim, input.dim(), op);
  const int64_t size = n.value_or(input.size(at));
  check_size(op, size);
  return {op, forward, {at}, {size}};
}

Plan plan_dims(std::string_view op, bool forward, const Tensor& input, const Sizes& s,
               const OptionalDims& dim) {
  Plan plan{op, forward};
  const int count = input.dim();
  if (dim && !dim->empty()) {
    check_has_dims(op, input);
    plan.dims = wrap_dims(*dim, count, op);
  }
  if (s) {
    check(!dim || dim->size() == s->size(), op,
          ": when given, dim and s must have the same length, got dim ", dim.value_or(Dims{}),
          " and s ", *s);
    check(s->size() <= count, op, ": got s with ", s->size(), " values, but the input has only ",
          count, " dims");
  }
  if (!dim) {
    const int transformed = s ? s->size() : count;
    for (int d = count - transformed; d < count; ++d) plan.dims.push_back(d);
  }
  for (int i = 0; i < plan.dims.size(); ++i) {
    const int64_t given = s ? (*s)[i] : -1;
    plan.sizes.push_back(given == -1 ? input.size(plan.dims[i]) : given);
    check_size(op, plan.sizes[i]);
  }
  return plan;
}

void check_one_dim(const Plan& plan) {
  check(!plan.dims.empty(), plan.op, ": must transform at least one axis");
}

/// The same for transforms to real numbers: returns the size of the last dim, of which the plan has
/// the half that is read.
int64_t plan_half(Plan& plan, const Tensor& input, const Sizes& s) {
  check_one_dim(plan);
  const int last = plan.dims.size() - 1;
  const int64_t n = s && s->back() != -1 ? s->back() : 2 * (input.size(plan.dims.back()) - 1);
  check_size(plan.op, n);
  plan.sizes[last] = n / 2 + 1;
  return n;
}

Tensor c2c(const Plan& plan, const Tensor& x, const Norm& norm) {
  const double scale = scale_of(plan, norm, plan.sizes.numel());
  if (plan.dims.empty()) return clone(x);
  return apply(fft_c2c_op, {x}, {plan.dims, scale, plan.forward});
}

/// To n real numbers along the last of the dims.
Tensor c2r(const Plan& plan, const Tensor& x, int64_t n, const Norm& norm) {
  Shape sizes = plan.sizes;
  sizes[sizes.size() - 1] = n;
  return apply(fft_c2r_op, {x}, {plan.dims, scale_of(plan, norm, sizes.numel()), n});
}

Tensor r2c(const Plan& plan, const Tensor& x, const Norm& norm) {
  return apply(fft_r2c_op, {x}, {plan.dims, scale_of(plan, norm, plan.sizes.numel())});
}

Tensor complex_line(std::string_view op, bool forward, const Tensor& input,
                    std::optional<int64_t> n, int64_t dim, const Norm& norm) {
  const Tensor x = promoted(op, input);
  const Plan plan = plan_line(op, forward, x, dim, n);
  if (x.is_complex()) return c2c(plan, resized(x, plan), norm);
  return apply(fft_real_op, {resized(x, plan)},
               {plan.dims, scale_of(plan, norm, plan.sizes.numel()), forward});
}

Tensor half_line(std::string_view op, bool forward, const Tensor& input, std::optional<int64_t> n,
                 int64_t dim, const Norm& norm) {
  check_real(op, input);
  const Tensor x = promoted(op, input);
  const Plan plan = plan_line(op, forward, x, dim, n);
  const Tensor half = r2c(plan, resized(x, plan), norm);
  return forward ? half : conj(half);
}

Tensor real_line(std::string_view op, bool forward, const Tensor& input, std::optional<int64_t> n,
                 int64_t dim, const Norm& norm) {
  const Tensor x = as_complex(promoted(op, input));
  check_has_dims(op, x);
  const int64_t known = x.size(wrap_dim(dim, x.dim(), op)), size = n.value_or(2 * (known - 1));
  Plan plan = plan_line(op, forward, x, dim, size);
  plan.sizes = {size / 2 + 1};
  const Tensor half = resized(x, plan);
  return c2r(plan, forward ? conj(half) : half, size, norm);
}

Tensor complex_dims(std::string_view op, bool forward, const Tensor& input, const Sizes& s,
                    const OptionalDims& dim, const Norm& norm) {
  const Tensor x = as_complex(promoted(op, input));
  const Plan plan = plan_dims(op, forward, x, s, dim);
  return c2c(plan, resized(x, plan), norm);
}

}  // namespace

Tensor fft(const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return complex_line("fft", true, input, n, dim, norm);
}
Tensor ifft(const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return complex_line("ifft", false, input, n, dim, norm);
}
Tensor rfft(const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return half_line("rfft", true, input, n, dim, norm);
}
Tensor irfft(const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return real_line("irfft", false, input, n, dim, norm);
}
Tensor hfft(const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return real_line("hfft", true, input, n, dim, norm);
}
Tensor ihfft(const Tensor& input, std::optional<int64_t> n, int64_t dim, Norm norm) {
  return half_line("ihfft", false, input, n, dim, norm);
}

Tensor fftn(const Tensor& input, const Sizes& s, const OptionalDims& dim, Norm norm) {
  return complex_dims("fftn", true, input, s, dim, norm);
}
Tensor ifftn(const Tensor& input, const Sizes& s, const OptionalDims& dim, Norm norm) {
  return complex_dims("ifftn", false, input, s, dim, norm);
}

Tensor rfftn(const Tensor& input, const Sizes& s, const OptionalDims& dim, Norm norm) {
  check_real("rfftn", input);
  const Tensor x = promoted("rfftn", input);
  const Plan plan = plan_dims("rfftn", true, x, s, dim);
  check_one_dim(plan);
  return r2c(plan, resized(x, plan), norm);
}

Tensor irfftn(const Tensor& input, const Sizes& s, const OptionalDims& dim, Norm norm) {
  const Tensor x = as_complex(promoted("irfftn", input));
  Plan plan = plan_dims("irfftn", false, x, s, dim);
  const int64_t n = plan_half(plan, x, s);
  return c2r(plan, resized(x, plan), n, norm);
}

// The forward transform to real numbers is the inverse one of the conjugates.
Tensor hfftn(const Tensor& input, const Sizes& s, const OptionalDims& dim, Norm norm) {
  const Tensor x = as_complex(promoted("hfftn", input));
  Plan plan = plan_dims("hfftn", true, x, s, dim);
  const int64_t n = plan_half(plan, x, s);
  return c2r(plan, conj(resized(x, plan)), n, norm);
}

Tensor ihfftn(const Tensor& input, const Sizes& s, const OptionalDims& dim, Norm norm) {
  check_real("ihfftn", input);
  const Tensor x = promoted("ihfftn", input);
  const Plan plan = plan_dims("ihfftn", false, x, s, dim);
  check_one_dim(plan);
  return conj(r2c(plan, resized(x, plan), norm));
}

Tensor fft2(const Tensor& input, const Sizes& s, const Dims& dim, Norm norm) {
  return fftn(input, s, dim, norm);
}
Tensor ifft2(const Tensor& input, const Sizes& s, const Dims& dim, Norm norm) {
  return ifftn(input, s, dim, norm);
}
Tensor rfft2(const Tensor& input, const Sizes& s, const Dims& dim, Norm norm) {
  return rfftn(input, s, dim, norm);
}
Tensor irfft2(const Tensor& input, const Sizes& s, const Dims& dim, Norm norm) {
  return irfftn(input, s, dim, norm);
}
Tensor hfft2(const Tensor& input, const Sizes& s, const Dims& dim, Norm norm) {
  return hfftn(input, s, dim, norm);
}
Tensor ihfft2(const Tensor& input, const Sizes& s, const Dims& dim, Norm norm) {
  return ihfftn(input, s, dim, norm);
}

namespace {

void check_frequencies(std::string_view op, int64_t n, const TensorOptions& options) {
  check(is_differentiable(options.dtype()), op,
        ": requires a floating point or complex dtype, but got ", options.dtype());
  check(n >= 0, op, ": n must not be negative, got ", n);
}

/// The numbers over n d.
Tensor frequencies(const Tensor& numbers, int64_t n, double d, const TensorOptions& options) {
  return to(numbers * (1 / (static_cast<double>(n) * d)), options.dtype())
      .requires_grad_(options.requires_grad);
}

TensorOptions for_numbers(TensorOptions options) {
  options.dtype = real_dtype(options.dtype());
  options.requires_grad = false;
  return options;
}

/// Rolls dims by half their sizes, rounded down or up.
Tensor shifted(std::string_view op, const Tensor& input, const OptionalDims& dim,
               int64_t rounding) {
  Dims dims = dim.value_or(Dims{});
  if (!dim)
    for (int d = 0; d < input.dim(); ++d) dims.push_back(d);
  check(!dims.empty() && input.dim() > 0, op, ": expected at least one dim, got shape ",
        input.sizes());
  Shape shifts;
  for (const int64_t d : dims)
    shifts.push_back((input.size(wrap_dim(d, input.dim(), op)) + rounding) / 2);
  return roll(input, shifts, dims);
}

}  // namespace

Tensor fftfreq(int64_t n, double d, const TensorOptions& options) {
  check_frequencies("fftfreq", n, options);
  const TensorOptions plain = for_numbers(options);
  return frequencies(cat({arange(0, (n + 1) / 2, plain), arange(-(n / 2), 0, plain)}), n, d,
                     options);
}

Tensor rfftfreq(int64_t n, double d, const TensorOptions& options) {
  check_frequencies("rfftfreq", n, options);
  return frequencies(arange(0, n / 2 + 1, for_numbers(options)), n, d, options);
}

Tensor fftshift(const Tensor& input, const OptionalDims& dim) {
  return shifted("fftshift", input, dim, 0);
}
Tensor ifftshift(const Tensor& input, const OptionalDims& dim) {
  return shifted("ifftshift", input, dim, 1);
}

}  // namespace tensora::fft

#include "tensora/ops/reduce/p_norm.h"

#include <cmath>
#include <limits>

#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"

namespace tensora {

constexpr auto describe(std::type_identity<NormAttrs>) {
  return fields(field("p", &NormAttrs::p), field("dim", &NormAttrs::dim),
                field("keepdim", &NormAttrs::keepdim), field("dtype", &NormAttrs::dtype));
}

namespace {

// The slope of |x|^p over p: sign(x) |x|^(p-1), in a form that has no pole it can avoid.
Tensor power_slope(const Tensor& x, double p) {
  if (p < 1) return where(eq(x, 0), 0, sign(x) * pow(abs(x), Scalar(p - 1)));
  if (p < 2) return sign(x) * pow(abs(x), Scalar(p - 1));
  return x * pow(abs(x), Scalar(p - 2));
}

Tensor norm_gradient(const Tensor& grad, const Tensor& x, const Tensor& norm,
                     const NormAttrs& attrs) {
  const auto repeated = [&](const Tensor& y) {
    return unreduce(y, x.sizes(), attrs.dim, attrs.keepdim);
  };
  const double p = attrs.p;
  if (p == 1) return repeated(grad) * sign(x);
  if (std::isinf(p)) {
    const Tensor chosen = logical_or(eq(abs(x), repeated(norm)), isnan(x));
    return repeated(grad / sum(chosen, attrs.dim, attrs.keepdim)) * chosen * sign(x);
  }
  // The elements over the norm are near 1, whatever the norm is; the gradient over a small norm, or
  // a power of one, would overflow. Zero vectors get the subgradient 0.
  constexpr double inf = std::numeric_limits<double>::infinity();
  const Tensor ratio = x / repeated(where(eq(norm, 0), inf, norm));
  return repeated(grad) * (p == 2 ? ratio : power_slope(ratio, p));
}

// The norm in other ops, half types in float.
Tensor norm_of(const Tensor& self, const NormAttrs& attrs) {
  const DType dtype = attrs.dtype.value_or(self.dtype());
  const Tensor x = to(self, promote_types(dtype, kFloat32));
  const double p = attrs.p;
  const auto total = [&](const Tensor& y) { return sum(y, attrs.dim, attrs.keepdim); };
  if (p == 0) return to(total(ne(x, 0)), dtype);
  if (p == 1) return to(total(abs(x)), dtype);
  if (p == 2) return to(sqrt(total(x * x)), dtype);
  if (!std::isinf(p)) return to(pow(total(pow(abs(x), Scalar(p))), Scalar(1 / p)), dtype);
  return to(p > 0 ? amax(abs(x), attrs.dim, attrs.keepdim) : amin(abs(x), attrs.dim, attrs.keepdim),
            dtype);
}

}  // namespace

constinit OpDef<NormAttrs> norm_op = define(Op<NormAttrs>{
    .name = "norm",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const NormAttrs& attrs) {
          const Tensor& x = infer[0];
          const DType dtype = attrs.dtype.value_or(x.dtype());
          infer.check(is_floating_point(x.dtype()) && is_floating_point(dtype),
                      "expected floating-point dtypes, got a tensor of ", x.dtype(),
                      " and a result of ", dtype);
          infer.check(!std::isnan(attrs.p), "p must be a number, got NaN");
          const bool chooses = std::isinf(attrs.p) || attrs.p < 0;
          const uint32_t mask = chooses ? nonempty_mask(infer, attrs.dim)
                                        : reduced_mask(attrs.dim, x.dim(), infer.op);
          infer.output(reduced_sizes(x.sizes(), mask, attrs.keepdim), dtype);
        },
    .reference = [](Args in, const NormAttrs& attrs) { return Tensors{norm_of(*in[0], attrs)}; },
    .vjp =
        [](Vjp& vjp, const NormAttrs& attrs) {
          if (attrs.p == 0) return;  // counting has no slope
          const Tensor x = to(vjp.input(0), vjp.grad().dtype());
          vjp.set(0, norm_gradient(vjp.grad(), x, vjp.output(), attrs));
        },
    .saves = {in(0) | out(0)},
});

void register_p_norm(OpRegistry& registry) {
  registry.add(norm_op);
  shard_by(norm_op, "reduce dim");
}

Tensor norm(const Tensor& self, Scalar p, const Dims& dim, bool keepdim,
            std::optional<DType> chosen) {
  const auto dtype = autocast_result(self, chosen, {Autocast::as_is, Autocast::full});
  if (self.is_complex()) {
    check(!dtype || is_complex(*dtype), "norm: expected a complex dtype for a complex tensor, got ",
          dtype.value_or(self.dtype()));
    return norm(abs(to(self, dtype.value_or(self.dtype()))), p, dim, keepdim, {});
  }
  return apply(norm_op, {self}, {p.to<double>(), dim, keepdim, dtype});
}

}  // namespace tensora

#include "tensora/ops/reduce/variance.h"

#include <algorithm>
#include <limits>

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<VarianceAttrs>) {
  return fields(field("dim", &VarianceAttrs::dim), field("correction", &VarianceAttrs::correction),
                field("keepdim", &VarianceAttrs::keepdim));
}

namespace {

template <int outputs>
void infer_variance(Infer& infer, const VarianceAttrs& attrs) {
  const Tensor& x = infer[0];
  infer.check(x.is_floating_point(), "expected a floating-point dtype, got ", x.dtype());
  const uint32_t mask = reduced_mask(attrs.dim, x.dim(), infer.op);
  for (int k = 0; k < outputs; ++k)
    infer.output(reduced_sizes(x.sizes(), mask, attrs.keepdim), x.dtype());
}

// The gradient of x through the variance, given that of the variance.
Tensor variance_gradient(const Tensor& grad, const Tensor& x, const VarianceAttrs& attrs) {
  const double count = static_cast<double>(reduced_count(x.sizes(), attrs.dim, "var"));
  const double freedom = count - attrs.correction;
  const auto spread = [&](const Tensor& reduced) {
    return unreduce(reduced, x.sizes(), attrs.dim, attrs.keepdim);
  };
  const Tensor center = spread(mean(x, attrs.dim, attrs.keepdim));
  const bool of_all = attrs.dim.empty() || x.dim() == 0;
  if (freedom > 0 || !of_all) return spread(grad * (2 / std::max(0.0, freedom))) * (x - center);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return spread(grad) * where(eq(x, center), kNan, full_like(x, kInfinity));  // as PyTorch's
}

// The gradient of the variance, given that of its square root; 0 where that has no slope.
Tensor through_root(const Tensor& grad, const Tensor& root) {
  return where(eq(root, 0), 0, grad / (root * 2));
}

Tensor mean_gradient(const Tensor& grad, const Shape& sizes, const VarianceAttrs& attrs) {
  const double count = static_cast<double>(reduced_count(sizes, attrs.dim, "mean"));
  return unreduce(grad / count, sizes, attrs.dim, attrs.keepdim);
}

// The variance (or its root), and the mean, in other ops; in double, where squares have room.
template <bool root, int outputs>
Tensors variance_reference(Args in, const VarianceAttrs& attrs) {
  const DType dtype = in[0]->dtype();
  const Tensor x = to(*in[0], kFloat64);
  const auto count = static_cast<double>(reduced_count(x.sizes(), attrs.dim, "var"));
  // Seen from one of the elements, equal ones have a variance of exactly 0.
  const uint32_t mask = reduced_mask(attrs.dim, x.dim(), "var");
  Tensor origin = x;
  for (int d = 0; d < x.dim(); ++d)
    if (mask >> d & 1) origin = narrow(origin, d, 0, std::min<int64_t>(1, x.sizes()[d]));
  const Tensor offset = count > 0 ? x - origin : x;
  const Tensor center = mean(offset, attrs.dim, true);
  const Tensor distance = offset - center;
  const Tensor variance = sum(distance * distance, attrs.dim, attrs.keepdim) /
                          Scalar(std::max(0.0, count - attrs.correction));
  Tensors result{to(root ? sqrt(variance) : variance, dtype)};
  if (outputs == 2) {
    const Tensor average = count > 0 ? center + origin : center;
    result.push_back(to(reshape(average, reduced_sizes(x.sizes(), mask, attrs.keepdim)), dtype));
  }
  return result;
}

template <bool root>
void variance_vjp(Vjp& vjp, const VarianceAttrs& attrs) {
  const Tensor grad = root ? through_root(vjp.grad(), vjp.output()) : vjp.grad();
  vjp.set(0, variance_gradient(grad, vjp.input(0), attrs));
}

template <bool root>
void variance_mean_vjp(Vjp& vjp, const VarianceAttrs& attrs) {
  Tensor total;
  if (vjp.grad(0).defined()) {
    const Tensor grad = root ? through_root(vjp.grad(0), vjp.output(0)) : vjp.grad(0);
    total = variance_gradient(grad, vjp.input(0), attrs);
  }
  if (vjp.grad(1).defined()) {
    const Tensor part = mean_gradient(vjp.grad(1), vjp.input_sizes(0), attrs);
    total = total.defined() ? total + part : part;
  }
  vjp.set(0, total);
}

std::tuple<Tensor, Tensor> pair(const OpDef<VarianceAttrs>& op, const Tensor& self,
                                const VarianceAttrs& attrs) {
  Tensors both = apply_all(op, {self}, attrs);
  return {std::move(both[0]), std::move(both[1])};
}

}  // namespace

constinit OpDef<VarianceAttrs> var_op =
    define(Op<VarianceAttrs>{.name = "var",
                             .inputs = {"self"},
                             .infer = infer_variance<1>,
                             .reference = variance_reference<false, 1>,
                             .vjp = variance_vjp<false>,
                             .saves = {in(0)}});
constinit OpDef<VarianceAttrs> std_op =
    define(Op<VarianceAttrs>{.name = "std",
                             .inputs = {"self"},
                             .infer = infer_variance<1>,
                             .reference = variance_reference<true, 1>,
                             .vjp = variance_vjp<true>,
                             .saves = {in(0) | out(0)}});
constinit OpDef<VarianceAttrs> var_mean_op =
    define(Op<VarianceAttrs>{.name = "var_mean",
                             .inputs = {"self"},
                             .infer = infer_variance<2>,
                             .reference = variance_reference<false, 2>,
                             .vjp = variance_mean_vjp<false>,
                             .saves = {in(0)}});
constinit OpDef<VarianceAttrs> std_mean_op =
    define(Op<VarianceAttrs>{.name = "std_mean",
                             .inputs = {"self"},
                             .infer = infer_variance<2>,
                             .reference = variance_reference<true, 2>,
                             .vjp = variance_mean_vjp<true>,
                             .saves = {in(0) | out(0)}});

void register_variance(OpRegistry& registry) {
  for (const OpDef<VarianceAttrs>* op : {&var_op, &std_op, &var_mean_op, &std_mean_op})
    registry.add(*op);
  shard_by(var_op, "reduce dim");
  shard_by(std_op, "reduce dim");
  shard_by(var_mean_op, "reduce dim");
  shard_by(std_mean_op, "reduce dim");
}

namespace {

// Of complex numbers: the mean square of the distance to the mean, in the plane.
Tensor variance_of_complex(const Tensor& self, const VarianceAttrs& attrs) {
  return apply(var_op, {real(self)}, attrs) + apply(var_op, {imag(self)}, attrs);
}

}  // namespace

Tensor var(const Tensor& self, const Dims& dim, double correction, bool keepdim) {
  if (self.is_complex()) return variance_of_complex(self, {dim, correction, keepdim});
  return apply(var_op, {self}, {dim, correction, keepdim});
}

Tensor std(const Tensor& self, const Dims& dim, double correction, bool keepdim) {
  if (self.is_complex()) return sqrt(var(self, dim, correction, keepdim));
  return apply(std_op, {self}, {dim, correction, keepdim});
}

std::tuple<Tensor, Tensor> var_mean(const Tensor& self, const Dims& dim, double correction,
                                    bool keepdim) {
  if (self.is_complex()) return {var(self, dim, correction, keepdim), mean(self, dim, keepdim)};
  return pair(var_mean_op, self, {dim, correction, keepdim});
}

std::tuple<Tensor, Tensor> std_mean(const Tensor& self, const Dims& dim, double correction,
                                    bool keepdim) {
  if (self.is_complex()) return {std(self, dim, correction, keepdim), mean(self, dim, keepdim)};
  return pair(std_mean_op, self, {dim, correction, keepdim});
}

}  // namespace tensora

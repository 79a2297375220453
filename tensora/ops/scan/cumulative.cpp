#include "tensora/ops/scan/cumulative.h"

#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/complex/complex_forms.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<LinearScanAttrs>) {
  using A = LinearScanAttrs;
  return fields(field("dim", &A::dim), field("reverse", &A::reverse));
}
constexpr auto describe(std::type_identity<CumulativeAttrs>) {
  using A = CumulativeAttrs;
  return fields(field("dim", &A::dim), field("reverse", &A::reverse), field("dtype", &A::dtype));
}

namespace {

void infer_cumulative(Infer& infer, const CumulativeAttrs& attrs) {
  const Tensor& x = infer[0];
  wrap_dim(attrs.dim, x.dim(), infer.op);
  infer.check(x.dim() > 0, "expected a tensor with at least one dimension");
  const DType natural = x.is_floating_point() ? x.dtype() : DType::int64;
  infer.output(x.sizes(), attrs.dtype.value_or(natural));
}

// Element i - 1 (i + 1 if not `forward`) in place of element i; `edge` where there is none.
Tensor shifted(const Tensor& x, int64_t dim, bool forward, double edge) {
  const int64_t n = x.size(dim);
  Shape sizes = x.sizes();
  sizes[wrap_dim(dim, x.dim(), "linear_scan")] = 1;
  const Tensor end = full(sizes, edge, {.dtype = x.dtype(), .device = x.device()});
  const Tensor rest = narrow(x, dim, forward ? 0 : 1, n - 1);
  return forward ? cat({end, rest}, dim) : cat({rest, end}, dim);
}

// Note [The gradient of a running product]
// y[j] is the product of x[0 … j], so x[k] enters every y[j] with j >= k, and
//   dx[k] = y[k - 1] * (g[k] + x[k + 1] * (g[k + 1] + x[k + 2] * (g[k + 2] + …))).
// The bracket is a linear scan from the end. Nothing is divided, so zeros need no care; it takes
// one pass, and its own gradient is again a linear scan.
void cumprod_vjp(Vjp& vjp, const CumulativeAttrs& attrs) {
  const Tensor grad = vjp.grad(), x = to(vjp.input(0), grad.dtype());
  if (x.numel() == 0) return vjp.set(0, grad);
  const bool forward = !attrs.reverse;
  const Tensor before = shifted(vjp.output(), attrs.dim, forward, 1);
  const Tensor factors = shifted(x, attrs.dim, !forward, 0);
  vjp.set(0, before * linear_scan(factors, grad, attrs.dim, forward));
}

// With s[i] = g[i] + a[i + 1] * s[i + 1], the gradient of b is s, and that of a is s times the
// result before it.
void linear_scan_vjp(Vjp& vjp, const LinearScanAttrs& attrs) {
  const Tensor& grad = vjp.grad();
  const bool forward = !attrs.reverse;
  if (grad.numel() == 0) {
    for (size_t i : {0u, 1u})
      if (vjp.needs(i)) vjp.set(i, grad);
    return;
  }
  const Tensor sums =
      linear_scan(shifted(vjp.input(0), attrs.dim, !forward, 0), grad, attrs.dim, forward);
  if (vjp.needs(0)) vjp.set(0, sums * shifted(vjp.output(), attrs.dim, forward, 0));
  if (vjp.needs(1)) vjp.set(1, sums);
}

// Sums part by part; products in steps of doubling reach, so that no kernel is needed.
Tensor scanned_complex(const Tensor& x, int64_t dim, bool products) {
  const int at = wrap_dim(dim, x.dim(), "cumulative");
  if (!products) return complex(cumsum(real(x), at), cumsum(imag(x), at));
  Tensor result = x;
  for (int64_t reach = 1, n = x.sizes()[at]; reach < n; reach *= 2)
    result = cat({narrow(result, at, 0, reach),
                  narrow(result, at, reach, n - reach) * narrow(result, at, 0, n - reach)},
                 at);
  return result.shares_storage(x) ? clone(x) : result;
}

// A 0-dim tensor counts as one of one element.
Tensor scanned(const OpDef<CumulativeAttrs>& op, const Tensor& self, int64_t dim,
               std::optional<DType> chosen) {
  const auto dtype = autocast_result(self, chosen, {Autocast::as_is, Autocast::full});
  const Tensor source = dtype ? to(self, *dtype) : self;
  wrap_dim(dim, self.dim(), op.name);
  if (self.dim() == 0) return reshape(scanned(op, reshape(source, {1}), 0, dtype), {});
  if (source.is_complex()) return scanned_complex(source, dim, &op == &cumprod_op);
  return apply(op, {source}, {dim, false, dtype});
}

const Tensor& scan_inplace(const OpDef<CumulativeAttrs>& op, const Tensor& self, int64_t dim) {
  wrap_dim(dim, self.dim(), op.name);
  if (self.is_complex()) return copy_(self, scanned(op, ComplexForms::kept({self}), dim, {}));
  apply_inplace(op, {self.dim() == 0 ? view(self, {1}) : self}, {dim, false, self.dtype()});
  return self;
}

}  // namespace

constinit OpDef<CumulativeAttrs> cumsum_op = define(Op<CumulativeAttrs>{
    .name = "cumsum",
    .inputs = {"self"},
    .primitive = true,
    .infer = infer_cumulative,
    .vjp =
        [](Vjp& vjp, const CumulativeAttrs& attrs) {
          vjp.set(0, apply(cumsum_op, {vjp.grad()}, {attrs.dim, !attrs.reverse}));
        },
});

constinit OpDef<CumulativeAttrs> cumprod_op = define(Op<CumulativeAttrs>{
    .name = "cumprod",
    .inputs = {"self"},
    .primitive = true,
    .infer = infer_cumulative,
    .vjp = cumprod_vjp,
    .saves = {in(0) | out(0)},
});

constinit OpDef<LinearScanAttrs> linear_scan_op = define(Op<LinearScanAttrs>{
    .name = "linear_scan",
    .inputs = {"a", "b"},
    .primitive = true,
    .infer =
        [](Infer& infer, const LinearScanAttrs& attrs) {
          const Tensor &a = infer[0], &b = infer[1];
          wrap_dim(attrs.dim, a.dim(), infer.op);
          infer.check(a.dim() > 0, "expected tensors with at least one dimension");
          infer.check(a.is_floating_point() && a.dtype() == b.dtype(),
                      "expected one floating-point dtype, got ", a.dtype(), " and ", b.dtype());
          infer.check(a.sizes() == b.sizes(), "expected one shape, got ", a.sizes(), " and ",
                      b.sizes());
          infer.output(a.sizes(), a.dtype());
        },
    .vjp = linear_scan_vjp,
    .saves = {in(0) | out(0), in(0)},
});

void register_cumulative(OpRegistry& registry) {
  registry.add(cumsum_op);
  registry.add(cumprod_op);
  registry.add(linear_scan_op);
  shard_by(cumsum_op, "along dim");
  shard_by(cumprod_op, "along dim");
  shard_by(linear_scan_op, "along dim");
}

Tensor cumsum(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  return scanned(cumsum_op, self, dim, dtype);
}
const Tensor& cumsum_(const Tensor& self, int64_t dim) {
  return scan_inplace(cumsum_op, self, dim);
}

Tensor cumprod(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  return scanned(cumprod_op, self, dim, dtype);
}
const Tensor& cumprod_(const Tensor& self, int64_t dim) {
  return scan_inplace(cumprod_op, self, dim);
}

Tensor linear_scan(const Tensor& a, const Tensor& b, int64_t dim, bool reverse) {
  return apply(linear_scan_op, {a, b}, {dim, reverse});
}

Tensor product_of_others(const Tensor& x, int64_t dim) {
  const Tensor before = apply(cumprod_op, {x}, {dim}), behind = apply(cumprod_op, {x}, {dim, true});
  return shifted(before, dim, true, 1) * shifted(behind, dim, false, 1);
}

}  // namespace tensora

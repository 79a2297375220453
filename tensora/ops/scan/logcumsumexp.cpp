#include "tensora/ops/scan/logcumsumexp.h"

#include <numbers>

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/scan/cummax.h"
#include "tensora/ops/scan/cumulative.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/flip.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<LogcumsumexpAttrs>) {
  using A = LogcumsumexpAttrs;
  return fields(field("dim", &A::dim), field("reverse", &A::reverse));
}

namespace {

// exp(a - b), where equal infinities have the difference 0.
Tensor ratio(const Tensor& a, const Tensor& b) { return exp(where(eq(a, b), 0, a - b)); }

// Note [The gradient of logcumsumexp]
// x[i] enters every y[j] with j >= i, and dy[j]/dx[i] = exp(x[i] - y[j]), so
//   dx[i] = exp(x[i] - y[i]) * (g[i] + exp(y[i] - y[i + 1]) * (g[i + 1] + …)).
// The bracket is a linear scan from the end. y does not decrease, and no x is above its y: no
// exponent is positive, and nothing overflows.
void logcumsumexp_vjp(Vjp& vjp, const LogcumsumexpAttrs& attrs) {
  const Tensor &grad = vjp.grad(), x = vjp.input(0), y = vjp.output();
  if (x.numel() == 0) return vjp.set(0, grad);
  if (x.dim() == 0) return vjp.set(0, grad * 1);
  const int dim = wrap_dim(attrs.dim, x.dim(), "logcumsumexp");
  const int64_t n = x.sizes()[dim];
  const Tensor first = narrow(y, dim, 0, n - 1), second = narrow(y, dim, 1, n - 1);
  const Tensor end = zeros_like(narrow(y, dim, 0, 1));
  const Tensor factors =
      attrs.reverse ? cat({end, ratio(second, first)}, dim) : cat({ratio(first, second), end}, dim);
  vjp.set(0, ratio(x, y) * linear_scan(factors, grad, dim, !attrs.reverse));
}

// By doubling: after the round with distance d, element i has seen the 2 d elements up to itself.
Tensor by_doubling(const Tensor& x, const LogcumsumexpAttrs& attrs) {
  const Tensor line = x.dim() == 0 ? ravel(x) : x;
  const int dim = wrap_dim(attrs.dim, line.dim(), "logcumsumexp");
  const int64_t n = line.sizes()[dim];
  // Never the input itself.
  Tensor y = attrs.reverse ? flip(line, {dim}) : n > 1 ? line : cat({line}, dim);
  for (int64_t distance = 1; distance < n; distance *= 2)
    y = cat({narrow(y, dim, 0, distance),
             logaddexp(narrow(y, dim, 0, n - distance), narrow(y, dim, distance, n - distance))},
            dim);
  if (attrs.reverse) y = flip(y, {dim});
  return contiguous(reshape(y, x.sizes()));
}

// The turns of 2 pi between logarithms of running sums `y`, of any branch, and those that adding
// one exponential after the other gives: each time the larger one of x[i] and y[i - 1] keeps its
// own imaginary part, and the sum's is at most pi / 2 from it.
Tensor turns_of(const Tensor& x, const Tensor& y, int dim) {
  const int64_t n = x.sizes()[dim];
  const auto tail = [&](const Tensor& line) { return narrow(line, dim, 1, n - 1); };
  const Tensor before = narrow(y, dim, 0, n - 1), first = zeros_like(real(narrow(y, dim, 0, 1)));
  const auto between = [&](const Tensor& a) {
    return round((imag(a) - imag(tail(y))) / (2 * std::numbers::pi));
  };
  const Tensor restarts = real(tail(x)) >= real(before);
  const Tensor steps = cumsum(cat({first, where(restarts, 0, between(before))}, dim), dim);
  const Tensor turns = cat({first, between(tail(x))}, dim) - steps;  // where it restarts
  Shape along = x.sizes();
  for (int d = 0; d < x.dim(); ++d) along[d] = d == dim ? n : 1;
  const Tensor places = reshape(arange(n, {.device = x.device()}), along);
  const Tensor last = std::get<0>(
      cummax(where(cat({ones_like(first, {.dtype = kBool}), restarts}, dim), places, 0), dim));
  return steps + gather(turns, dim, last);
}

Tensor of_complex(const Tensor& x, int64_t given) {
  Tensor y = by_doubling(x, {.dim = given});
  if (x.dim() == 0 || x.numel() == 0) return y;
  const int dim = wrap_dim(given, x.dim(), "logcumsumexp");
  const Tensor turns = turns_of(x.detach(), y.detach(), dim);
  return y + complex(zeros_like(turns), turns * (2 * std::numbers::pi));
}

}  // namespace

constinit OpDef<LogcumsumexpAttrs> logcumsumexp_op = define(Op<LogcumsumexpAttrs>{
    .name = "logcumsumexp",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const LogcumsumexpAttrs& attrs) {
          const Tensor& x = infer[0];
          wrap_dim(attrs.dim, x.dim(), infer.op);
          infer.check(x.is_floating_point(), "expected a floating-point dtype, got ", x.dtype());
          infer.output(x.sizes(), x.dtype());
        },
    .reference = [](Args in,
                    const LogcumsumexpAttrs& attrs) { return Tensors{by_doubling(*in[0], attrs)}; },
    .vjp = logcumsumexp_vjp,
    .saves = {in(0) | out(0)},
});

void register_logcumsumexp(OpRegistry& registry) {
  registry.add(logcumsumexp_op);
  shard_by(logcumsumexp_op, "along dim");
}

Tensor logcumsumexp(const Tensor& self, int64_t dim) {
  if (self.is_complex()) return of_complex(self, dim);
  return apply(logcumsumexp_op, {self}, {dim});
}

}  // namespace tensora

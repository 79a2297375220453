#include "tensora/ops/scan/logcumsumexp.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
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
    .reference =
        [](Args in, const LogcumsumexpAttrs& attrs) {
          // After the round with distance d, element i has seen the 2 d elements up to itself.
          const Tensor line = in[0]->dim() == 0 ? ravel(*in[0]) : *in[0];
          const int dim = wrap_dim(attrs.dim, line.dim(), "logcumsumexp");
          const int64_t n = line.sizes()[dim];
          // Never the input itself.
          Tensor y = attrs.reverse ? flip(line, {dim}) : n > 1 ? line : cat({line}, dim);
          for (int64_t distance = 1; distance < n; distance *= 2)
            y = cat(
                {narrow(y, dim, 0, distance), logaddexp(narrow(y, dim, 0, n - distance),
                                                        narrow(y, dim, distance, n - distance))},
                dim);
          if (attrs.reverse) y = flip(y, {dim});
          return Tensors{contiguous(reshape(y, in[0]->sizes()))};
        },
    .vjp = logcumsumexp_vjp,
    .saves = {in(0) | out(0)},
});

void register_logcumsumexp(OpRegistry& registry) { registry.add(logcumsumexp_op); }

Tensor logcumsumexp(const Tensor& self, int64_t dim) {
  return apply(logcumsumexp_op, {self}, {dim});
}

}  // namespace tensora

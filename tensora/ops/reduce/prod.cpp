#include "tensora/ops/reduce/prod.h"

#include "tensora/dispatch/autocast_call.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/scan/cumulative.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

// Note [The gradient of a product with zeros]
// grad * y / x fails at zeros, where the product of the other elements is needed: the product of
// the elements before times that of the elements after, two running products. No division, O(n)
// work, and differentiable to any order.

Tensor safe_gradient(const Tensor& grad, const Tensor& x, uint32_t mask) {
  Dims order, inverse = Shape::filled(x.dim(), 0);
  for (int d = 0; d < x.dim(); ++d)
    if (!(mask >> d & 1)) order.push_back(d);
  for (int d = 0; d < x.dim(); ++d)
    if (mask >> d & 1) order.push_back(d);
  for (int i = 0; i < x.dim(); ++i) inverse[static_cast<int>(order[i])] = i;
  const Tensor moved = permute(x, order);
  const int64_t count = reduced_count(x.sizes(), mask);
  const int64_t rows = x.numel() / count;
  const Tensor flat =
      product_of_others(reshape(moved, {rows, count}), 1) * reshape(grad, {rows, 1});
  return permute(reshape(flat, moved.sizes()), inverse);
}

// Looking for zeros costs little on the CPU; elsewhere the host would have to wait for the answer.
bool can_divide(const Tensor& x) { return x.is_cpu() && all(x).item<bool>(); }

void prod_vjp(Vjp& vjp, const ReduceAttrs& attrs) {
  const Tensor grad = vjp.grad(), x = to(vjp.input(0), grad.dtype());
  if (x.numel() == 0) {
    vjp.set(0, x);
    return;
  }
  if (!can_divide(x)) {
    vjp.set(0, safe_gradient(grad, x, reduced_mask(attrs.dim, x.dim(), "prod")));
    return;
  }
  vjp.set(0, unreduce(grad * vjp.output(), x.sizes(), attrs.dim, attrs.keepdim) / x);
}

}  // namespace

constinit OpDef<ReduceAttrs> prod_op = define(Op<ReduceAttrs>{
    .name = "prod",
    .inputs = {"self"},
    .primitive = true,
    .infer =
        [](Infer& infer, const ReduceAttrs& attrs) {
          const Tensor& x = infer[0];
          const uint32_t mask = reduced_mask(attrs.dim, x.dim(), infer.op);
          const DType natural = x.is_floating_point() ? x.dtype() : DType::int64;
          infer.output(reduced_sizes(x.sizes(), mask, attrs.keepdim),
                       attrs.dtype.value_or(natural));
        },
    .vjp = prod_vjp,
    .saves = {in(0) | out(0)},
});

void register_prod(OpRegistry& registry) {
  registry.add(prod_op);
  shard_by(prod_op, "reduce dim by product");
}

namespace {

// Of complex numbers: halves of the factors are multiplied with each other until one is left.
Tensor product_of_complex(const Tensor& x, const Dims& dim, bool keepdim) {
  const uint32_t mask = reduced_mask(dim, x.dim(), "prod");
  Tensor rest = x;
  for (int d = 0; d < x.dim(); ++d) {
    if (!(mask >> d & 1)) continue;
    if (rest.sizes()[d] == 0) rest = sum(rest, {d}, true) + 1;  // no factors: one, with a history
    while (rest.sizes()[d] > 1) {
      const int64_t half = rest.sizes()[d] / 2, odd = rest.sizes()[d] % 2;
      const Tensor pairs = narrow(rest, d, 0, half) * narrow(rest, d, half, half);
      rest = odd == 0 ? pairs : cat({pairs, narrow(rest, d, 2 * half, 1)}, d);
    }
  }
  // Not a view: of a single factor it would be one of x.
  return clone(reshape(rest, reduced_sizes(x.sizes(), mask, keepdim)));
}

}  // namespace

Tensor prod(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> chosen) {
  const auto dtype = autocast_result(self, chosen, Autocast::full);
  if (is_complex(dtype.value_or(self.dtype())))
    return product_of_complex(to(self, dtype.value_or(self.dtype())), dim, keepdim);
  return apply(prod_op, {dtype == kBool ? to(self, kBool) : self}, {dim, keepdim, dtype});
}

Tensor prod(const Tensor& self, DType dtype) { return prod(self, {}, false, dtype); }

}  // namespace tensora

#include "tensora/ops/reduce/prod.h"

#include <vector>

#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

// Note [The gradient of a product with zeros]
// grad * y / x fails at zeros, where the product of the other elements is wanted. Multiply pairwise
// up a tree instead, and walk down it again: what multiplies an element is what multiplies its
// parent, times its sibling. No division, O(n) work, and differentiable to any order.

// x is [rows, n] and outer [rows, 1]; gives outer times the product of the other elements of a row.
Tensor times_others(const Tensor& x, const Tensor& outer) {
  const int64_t n = x.size(1);
  if (n == 1) return outer;
  const int64_t half = n / 2;
  const Tensor left = narrow(x, 1, 0, half), right = narrow(x, 1, half, half);
  Tensor parents = left * right;
  const bool odd = n % 2 != 0;
  if (odd) parents = cat({parents, narrow(x, 1, n - 1, 1)}, 1);
  const Tensor above = times_others(parents, outer);
  const Tensor paired = odd ? narrow(above, 1, 0, half) : above;
  std::vector<Tensor> parts = {paired * right, paired * left};
  if (odd) parts.push_back(narrow(above, 1, half, 1));
  return cat(parts, 1);
}

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
  const Tensor flat = times_others(reshape(moved, {rows, count}), reshape(grad, {rows, 1}));
  return permute(reshape(flat, moved.sizes()), inverse);
}

bool has_zero(const Tensor& x) { return !all(x).item<bool>(); }

void prod_vjp(Vjp& vjp, const ReduceAttrs& attrs) {
  const Tensor grad = vjp.grad(), x = to(vjp.input(0), grad.dtype());
  if (x.numel() == 0) {
    vjp.set(0, x);
    return;
  }
  if (x.is_meta() || has_zero(x)) {
    vjp.set(0, safe_gradient(grad, x, reduced_mask(attrs.dim, x.dim(), "prod")));
    return;
  }
  vjp.set(0, unreduce(grad * vjp.output(), x.sizes(), attrs.dim, attrs.keepdim) / x);
}

}  // namespace

constinit OpDef<ReduceAttrs> prod_op = define(Op<ReduceAttrs>{
    .name = "prod",
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
    .autocast = Autocast::full,
});

void register_prod(OpRegistry& registry) { registry.add(prod_op); }

Tensor prod(const Tensor& self, const Dims& dim, bool keepdim, std::optional<DType> dtype) {
  return apply(prod_op, {dtype == kBool ? to(self, kBool) : self}, {dim, keepdim, dtype});
}

}  // namespace tensora

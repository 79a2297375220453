#include "tensora/ops/shape/triangle.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<TriangleAttrs>) {
  return fields(field("diagonal", &TriangleAttrs::diagonal));
}

namespace {

void infer_triangle(Infer& infer, const TriangleAttrs&) {
  infer.check(infer[0].dim() >= 2, "expected a tensor with at least 2 dimensions, got ",
              infer[0].dim());
  infer.output(infer[0].sizes(), infer[0].dtype());
}

// The elements for which column - row is at most, or at least, `diagonal`, and zeros.
template <bool lower>
Tensors masked(Args in, const TriangleAttrs& attrs) {
  const Tensor& x = *in[0];
  const TensorOptions options{.device = x.device()};
  const Tensor distance = arange(x.size(-1), options) - unsqueeze(arange(x.size(-2), options), 1);
  const Tensor kept = lower ? le(distance, attrs.diagonal) : ge(distance, attrs.diagonal);
  return Tensors{where(kept, x, zeros_like(x))};
}

}  // namespace

constinit OpDef<TriangleAttrs> tril_op = define(Op<TriangleAttrs>{
    .name = "tril",
    .inputs = {"self"},
    .infer = infer_triangle,
    .reference = masked<true>,
    .vjp = [](Vjp& vjp,
              const TriangleAttrs& attrs) { vjp.set(0, tril(vjp.grad(), attrs.diagonal)); },
    .accepts = kElementDTypes,
});

constinit OpDef<TriangleAttrs> triu_op = define(Op<TriangleAttrs>{
    .name = "triu",
    .inputs = {"self"},
    .infer = infer_triangle,
    .reference = masked<false>,
    .vjp = [](Vjp& vjp,
              const TriangleAttrs& attrs) { vjp.set(0, triu(vjp.grad(), attrs.diagonal)); },
    .accepts = kElementDTypes,
});

void register_triangle(OpRegistry& registry) {
  registry.add(tril_op);
  registry.add(triu_op);
  shard_by(tril_op, "*..->*..");
  shard_by(triu_op, "*..->*..");
}

Tensor tril(const Tensor& self, int64_t diagonal) { return apply(tril_op, {self}, {diagonal}); }
Tensor triu(const Tensor& self, int64_t diagonal) { return apply(triu_op, {self}, {diagonal}); }
const Tensor& tril_(const Tensor& self, int64_t diagonal) {
  return apply_inplace(tril_op, {self}, {diagonal});
}
const Tensor& triu_(const Tensor& self, int64_t diagonal) {
  return apply_inplace(triu_op, {self}, {diagonal});
}

}  // namespace tensora

#include "tensora/ops/shape/triangle.h"

namespace tensora {
namespace {

void infer_triangle(Infer& infer, const TriangleAttrs&) {
  infer.check(infer[0].dim() >= 2, "expected a tensor with at least 2 dimensions, got ",
              infer[0].dim());
  infer.output(infer[0].sizes(), infer[0].dtype());
}

}  // namespace

constinit OpDef<TriangleAttrs> tril_op = define(Op<TriangleAttrs>{
    .name = "tril",
    .infer = infer_triangle,
    .vjp = [](Vjp& vjp,
              const TriangleAttrs& attrs) { vjp.set(0, tril(vjp.grad(), attrs.diagonal)); },
    .accepts = kElementDTypes,
});

constinit OpDef<TriangleAttrs> triu_op = define(Op<TriangleAttrs>{
    .name = "triu",
    .infer = infer_triangle,
    .vjp = [](Vjp& vjp,
              const TriangleAttrs& attrs) { vjp.set(0, triu(vjp.grad(), attrs.diagonal)); },
    .accepts = kElementDTypes,
});

void register_triangle(OpRegistry& registry) {
  registry.add(tril_op);
  registry.add(triu_op);
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

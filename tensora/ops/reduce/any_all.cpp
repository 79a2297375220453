#include "tensora/ops/reduce/any_all.h"

#include "tensora/ops/reduce/reduce_common.h"

namespace tensora {
namespace {

void infer_any_all(Infer& infer, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, infer[0].dim(), infer.op);
  infer.output(reduced_sizes(infer[0].sizes(), mask, attrs.keepdim),
               infer[0].dtype() == kUInt8 ? kUInt8 : kBool);
}

}  // namespace

constinit OpDef<ReduceAttrs> any_op = define(Op<ReduceAttrs>{
    .name = "any", .infer = infer_any_all, .gradient = Gradient::not_differentiable});
constinit OpDef<ReduceAttrs> all_op = define(Op<ReduceAttrs>{
    .name = "all", .infer = infer_any_all, .gradient = Gradient::not_differentiable});

void register_any_all(OpRegistry& registry) {
  registry.add(any_op);
  registry.add(all_op);
}

Tensor any(const Tensor& self, const Dims& dim, bool keepdim) {
  return apply(any_op, {self}, {dim, keepdim});
}

Tensor all(const Tensor& self, const Dims& dim, bool keepdim) {
  return apply(all_op, {self}, {dim, keepdim});
}

}  // namespace tensora

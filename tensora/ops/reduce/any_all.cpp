#include "tensora/ops/reduce/any_all.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"

namespace tensora {
namespace {

void infer_any_all(Infer& infer, const ReduceAttrs& attrs) {
  const uint32_t mask = reduced_mask(attrs.dim, infer[0].dim(), infer.op);
  infer.output(reduced_sizes(infer[0].sizes(), mask, attrs.keepdim),
               infer[0].dtype() == kUInt8 ? kUInt8 : kBool);
}

Tensors as_answer(const Tensor& self, const Tensor& truth) {
  return Tensors{to(truth, self.dtype() == kUInt8 ? kUInt8 : kBool)};
}

}  // namespace

constinit OpDef<ReduceAttrs> any_op = define(Op<ReduceAttrs>{
    .name = "any",
    .inputs = {"self"},
    .infer = infer_any_all,
    .reference =
        [](Args in, const ReduceAttrs& attrs) {
          return as_answer(*in[0], ne(sum(ne(*in[0], 0), attrs.dim, attrs.keepdim), 0));
        },
    .gradient = Gradient::not_differentiable});
constinit OpDef<ReduceAttrs> all_op = define(Op<ReduceAttrs>{
    .name = "all",
    .inputs = {"self"},
    .infer = infer_any_all,
    .reference =
        [](Args in, const ReduceAttrs& attrs) {
          return as_answer(*in[0], eq(sum(eq(*in[0], 0), attrs.dim, attrs.keepdim), 0));
        },
    .gradient = Gradient::not_differentiable});

void register_any_all(OpRegistry& registry) {
  registry.add(any_op);
  registry.add(all_op);
  shard_by(any_op, "reduce dim");
  shard_by(all_op, "reduce dim");
}

Tensor any(const Tensor& self, const Dims& dim, bool keepdim) {
  return apply(any_op, {self.is_complex() ? ne(self, 0) : self}, {dim, keepdim});
}

Tensor all(const Tensor& self, const Dims& dim, bool keepdim) {
  return apply(all_op, {self.is_complex() ? ne(self, 0) : self}, {dim, keepdim});
}

}  // namespace tensora

#include "tensora/ops/reduce/pick.h"

#include "tensora/ops/reduce/reduce_common.h"

namespace tensora {

// The indices come from our own reductions of a tensor of shape attrs.sizes, so they are in range.
constinit OpDef<PickAttrs> pick_op = define(Op<PickAttrs>{
    .name = "pick",
    .infer = [](Infer& infer,
                const PickAttrs&) { infer.output(infer[1].sizes(), infer[0].dtype()); },
    .vjp =
        [](Vjp& vjp, const PickAttrs& attrs) {
          if (vjp.needs(0)) vjp.set(0, put_picked(vjp.grad(), vjp.input(1), attrs));
        },
    .saves = {in(1)},
});

constinit OpDef<PickAttrs> put_picked_op = define(Op<PickAttrs>{
    .name = "put_picked",
    .infer =
        [](Infer& infer, const PickAttrs& attrs) {
          infer.check(infer[1].sizes() == infer[0].sizes(), "expected an index for each value");
          infer.output(attrs.sizes, infer[0].dtype());
        },
    .vjp =
        [](Vjp& vjp, const PickAttrs& attrs) {
          if (vjp.needs(0)) vjp.set(0, pick(vjp.grad(), vjp.input(1), attrs));
        },
    .saves = {in(1)},
});

void register_pick(OpRegistry& registry) {
  registry.add(pick_op);
  registry.add(put_picked_op);
}

Tensor pick(const Tensor& x, const Tensor& indices, const PickAttrs& attrs) {
  return apply(pick_op, {x, indices}, attrs);
}

Tensor put_picked(const Tensor& values, const Tensor& indices, const PickAttrs& attrs) {
  return apply(put_picked_op, {values, indices}, attrs);
}

}  // namespace tensora

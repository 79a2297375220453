#include "tensora/ops/reduce/pick.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

// The indices with the picked dim in its place, of size 1. A 0-dim tensor counts as one of one
// element.
Tensor with_dim(const Tensor& values, const PickAttrs& attrs) {
  return attrs.keepdim || attrs.sizes.empty() ? values : unsqueeze(values, attrs.dim);
}

}  // namespace

// The indices come from our own reductions of a tensor of shape attrs.sizes, so they are in range.
constinit OpDef<PickAttrs> pick_op = define(Op<PickAttrs>{
    .name = "pick",
    .inputs = {"self", "indices"},
    .internal = true,
    .infer = [](Infer& infer,
                const PickAttrs&) { infer.output(infer[1].sizes(), infer[0].dtype()); },
    .reference =
        [](Args in, const PickAttrs& attrs) {
          const Tensor picked = gather(*in[0], attrs.dim, with_dim(*in[1], attrs));
          return Tensors{reshape(picked, in[1]->sizes())};
        },
    .vjp =
        [](Vjp& vjp, const PickAttrs& attrs) {
          if (vjp.needs(0)) vjp.set(0, put_picked(vjp.grad(), vjp.input(1), attrs));
        },
    .saves = {in(1)},
});

constinit OpDef<PickAttrs> put_picked_op = define(Op<PickAttrs>{
    .name = "put_picked",
    .inputs = {"values", "indices"},
    .internal = true,
    .infer =
        [](Infer& infer, const PickAttrs& attrs) {
          infer.check(infer[1].sizes() == infer[0].sizes(), "expected an index for each value");
          infer.output(attrs.sizes, infer[0].dtype());
        },
    .reference =
        [](Args in, const PickAttrs& attrs) {
          const Tensor zero =
              zeros(attrs.sizes, {.dtype = in[0]->dtype(), .device = in[0]->device()});
          return Tensors{
              scatter(zero, attrs.dim, with_dim(*in[1], attrs), with_dim(*in[0], attrs))};
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

#include "tensora/ops/copy/fill.h"

#include "tensora/core/fit_scalar.h"
#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"

namespace tensora {

constexpr auto describe(std::type_identity<FillAttrs>) {
  return fields(field("value", &FillAttrs::value));
}

constinit OpDef<FillAttrs> fill_op = define(Op<FillAttrs>{
    .name = "fill",
    .inputs = {"self"},
    .primitive = true,
    .infer =
        [](Infer& infer, const FillAttrs& attrs) {
          fit_scalar(attrs.value, infer[0].dtype(), infer.op);
          infer.output(infer[0].sizes(), infer[0].dtype());
        },
    .vjp = [](Vjp&, const FillAttrs&) {},  // nothing of the old contents remains
    .accepts = kElementDTypes,
});

void register_fill(OpRegistry& registry) {
  registry.add(fill_op);
  shard_by(fill_op, "*->*");
}

const Tensor& fill_(const Tensor& self, Scalar value) {
  return apply_inplace(fill_op, {self}, {value});
}
Tensor fill(const Tensor& self, Scalar value) { return apply(fill_op, {self}, {value}); }
const Tensor& zero_(const Tensor& self) { return fill_(self, 0); }

}  // namespace tensora

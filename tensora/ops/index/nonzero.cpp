#include "tensora/ops/index/nonzero.h"

#include "tensora/ops/copy/copy.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/split.h"

namespace tensora {

constinit OpDef<NoAttrs> nonzero_count_op = define(Op<NoAttrs>{
    .name = "nonzero_count",
    .infer =
        [](Infer& infer, const NoAttrs&) {
          infer.check(infer[0].is_contiguous(), "expected a contiguous tensor");
          infer.output({}, kInt64);
        },
    .gradient = Gradient::not_differentiable,
});

constinit OpDef<NonzeroAttrs> nonzero_op = define(Op<NonzeroAttrs>{
    .name = "nonzero",
    .infer =
        [](Infer& infer, const NonzeroAttrs& attrs) {
          infer.check(infer[0].is_contiguous(), "expected a contiguous tensor");
          infer.output({attrs.count, infer[0].dim()}, kInt64);
        },
    .gradient = Gradient::not_differentiable,
});

void register_nonzero(OpRegistry& registry) {
  registry.add(nonzero_count_op);
  registry.add(nonzero_op);
}

Tensor nonzero(const Tensor& self) {
  check(!self.is_meta(),
        "nonzero: the shape of the result depends on data, which a meta tensor "
        "does not have");
  const Tensor source = contiguous(self.detach());
  return apply(nonzero_op, {source}, {apply(nonzero_count_op, {source}).item<int64_t>()});
}

Tensor argwhere(const Tensor& self) { return nonzero(self); }

std::vector<Tensor> nonzero_tuple(const Tensor& self) {
  return unbind(nonzero(atleast_1d(self)), 1);
}

}  // namespace tensora

#include "tensora/ops/reduce/logsumexp.h"

#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora {

constinit OpDef<ReduceAttrs> logsumexp_op = define(Op<ReduceAttrs>{
    .name = "logsumexp",
    .infer =
        [](Infer& infer, const ReduceAttrs& attrs) {
          const Tensor& x = infer[0];
          const uint32_t mask = reduced_mask(attrs.dim, x.dim(), infer.op);
          infer.output(reduced_sizes(x.sizes(), mask, attrs.keepdim),
                       x.is_floating_point() ? x.dtype() : default_dtype());
        },
    .vjp =
        [](Vjp& vjp, const ReduceAttrs& attrs) {
          const Tensor x = vjp.input(0);
          const auto repeated = [&](const Tensor& y) {
            return unreduce(y, x.sizes(), attrs.dim, attrs.keepdim);
          };
          vjp.set(0, repeated(vjp.grad()) * exp(x - repeated(vjp.output())));
        },
    .saves = {in(0) | out(0)},
    .autocast = Autocast::full,
});

void register_logsumexp(OpRegistry& registry) { registry.add(logsumexp_op); }

Tensor logsumexp(const Tensor& self, const Dims& dim, bool keepdim) {
  return apply(logsumexp_op, {self}, {dim, keepdim});
}

}  // namespace tensora

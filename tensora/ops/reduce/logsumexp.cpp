#include "tensora/ops/reduce/logsumexp.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/complex/complex.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constinit OpDef<ReduceAttrs> logsumexp_op = define(Op<ReduceAttrs>{
    .name = "logsumexp",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const ReduceAttrs& attrs) {
          const Tensor& x = infer[0];
          const uint32_t mask = reduced_mask(attrs.dim, x.dim(), infer.op);
          infer.output(reduced_sizes(x.sizes(), mask, attrs.keepdim),
                       x.is_floating_point() ? x.dtype() : default_dtype());
        },
    .reference =
        [](Args in, const ReduceAttrs& attrs) {
          const DType dtype = in[0]->is_floating_point() ? in[0]->dtype() : default_dtype();
          const Tensor x = to(*in[0], promote_types(dtype, kFloat32));
          if (x.numel() == 0) return Tensors{to(log(sum(x, attrs.dim, attrs.keepdim)), dtype)};
          // Shifted so that the largest exponential is 1, unless that is infinite.
          const Tensor largest = amax(x, attrs.dim, true);
          const Tensor shift = where(isfinite(largest), largest, 0);
          const Tensor result = log(sum(exp(x - shift), attrs.dim, true)) + shift;
          const uint32_t mask = reduced_mask(attrs.dim, x.dim(), "logsumexp");
          return Tensors{to(reshape(result, reduced_sizes(x.sizes(), mask, attrs.keepdim)), dtype)};
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
    .autocast = {Autocast::as_is, Autocast::full},
});

void register_logsumexp(OpRegistry& registry) {
  registry.add(logsumexp_op);
  shard_by(logsumexp_op, "reduce dim");
}

Tensor logsumexp(const Tensor& self, const Dims& dim, bool keepdim) {
  if (self.is_complex()) {
    if (self.numel() == 0) return log(sum(self, dim, keepdim));
    const Tensor largest = amax(real(self.detach()), dim, true);
    const Tensor shift = where(isfinite(largest), largest, 0);
    const Tensor result = log(sum(exp(self - shift), dim, true)) + shift;
    const uint32_t mask = reduced_mask(dim, self.dim(), "logsumexp");
    return reshape(result, reduced_sizes(self.sizes(), mask, keepdim));
  }
  return apply(logsumexp_op, {self}, {dim, keepdim});
}

}  // namespace tensora

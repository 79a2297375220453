#include "tensora/ops/shape/detach.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/sparse_gradient.h"
#include "tensora/dispatch/op.h"

namespace tensora {

constinit OpDef<NoAttrs> detach_op = define(Op<NoAttrs>{
    .name = "detach",
    .inputs = {"self"},
    .internal = true,  // by itself it does not detach; Tensor::detach() does
    .infer =
        [](Infer& infer, const NoAttrs&) {
          const Tensor& x = infer[0];
          infer.view(x.sizes(), x.strides(), x.storage_offset());
        },
    .vjp = [](Vjp&, const NoAttrs&) {},  // detached: no gradient is propagated
    .view = true,
});

void register_detach(OpRegistry& registry) { registry.add(detach_op); }

Tensor Tensor::detach() const {
  const no_grad silent;
  if (is_sparse(*this)) return shallow_detach(*this);
  Tensor alias = apply(detach_op, {*this});
  // A tracked view would take part in its base's history when either is written to.
  delete std::exchange(alias.impl().autograd, nullptr);
  alias.impl().inference = is_inference();
  return alias;
}

}  // namespace tensora

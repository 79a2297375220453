#include "tensora/ops/optim/adam.h"

#include "tensora/autograd/grad_mode.h"

namespace tensora {

constinit OpDef<AdamAttrs> adam_op = define(Op<AdamAttrs>{
    .name = "adam",
    .infer =
        [](Infer& infer, const AdamAttrs& attrs) {
          const Tensor& param = infer[0];
          infer.check(param.is_floating_point(), "expected floating-point parameters, got ",
                      param.dtype());
          infer.check(attrs.step >= 1, "steps are counted from 1, got ", attrs.step);
          if (infer.inputs.size() > 4)
            infer.check(infer[4].dtype() == kFloat32 && infer[4].numel() == 1,
                        "the step must be one float32 number, got ", infer[4].dtype(), " of shape ",
                        infer[4].sizes());
          for (size_t i = 1; i < 4; ++i)
            infer.check(infer[i].sizes() == param.sizes() && infer[i].dtype() == param.dtype(),
                        "all tensors must be ", param.dtype(), " of shape ", param.sizes(),
                        ", got ", infer[i].dtype(), " of shape ", infer[i].sizes());
          for (int i = 0; i < 3; ++i) infer.output(param.sizes(), param.dtype());
        },
    .gradient = Gradient::not_differentiable,
});

void register_adam(OpRegistry& registry) { registry.add(adam_op); }

void adam_(const Tensor& param, const Tensor& exp_avg, const Tensor& exp_avg_sq, const Tensor& grad,
           const AdamAttrs& attrs) {
  const no_grad silent;
  apply_inplace(adam_op, {param, exp_avg, exp_avg_sq, grad}, attrs);
}

void adam_(const Tensor& param, const Tensor& exp_avg, const Tensor& exp_avg_sq, const Tensor& grad,
           const Tensor& step, const AdamAttrs& attrs) {
  const no_grad silent;
  apply_inplace(adam_op, {param, exp_avg, exp_avg_sq, grad, step}, attrs);
}

}  // namespace tensora

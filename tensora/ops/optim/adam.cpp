#include "tensora/ops/optim/adam.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<AdamAttrs>) {
  using A = AdamAttrs;
  return fields(field("lr", &A::lr), field("beta1", &A::beta1), field("beta2", &A::beta2),
                field("eps", &A::eps), field("weight_decay", &A::weight_decay),
                field("step", &A::step), field("decoupled", &A::decoupled));
}

namespace {

// One step in other ops, half types in float. A step that is a tensor stays on its device.
Tensors stepped(Args in, const AdamAttrs& a) {
  const DType dtype = in[0]->dtype(), wide = promote_types(dtype, kFloat32);
  const Tensor param = to(*in[0], wide), average = to(*in[1], wide), square = to(*in[2], wide);
  const Device device = param.device();
  const Tensor step = in.size() > 4 && in[4]->defined()
                          ? to(reshape(*in[4], {}), kFloat64)
                          : full({}, a.step, {.dtype = kFloat64, .device = device});
  const auto correction = [&](double beta) {
    return 1 - pow(full({}, beta, {.dtype = kFloat64, .device = device}), step);
  };
  const Tensor grad = to(*in[3], wide) + param * (a.decoupled ? 0 : a.weight_decay);
  const Tensor m = average * a.beta1 + grad * (1 - a.beta1);
  const Tensor v = square * a.beta2 + grad * grad * (1 - a.beta2);
  const Tensor root = sqrt(v) / to(sqrt(correction(a.beta2)), wide) + a.eps;
  const Tensor kept = a.decoupled ? param * (1 - a.lr * a.weight_decay) : param;
  const Tensor moved = kept - m * to(a.lr / correction(a.beta1), wide) / root;
  return Tensors{to(moved, dtype), to(m, dtype), to(v, dtype)};
}

// The strides of dims of one element have no meaning.
bool laid_out_alike(const Tensor& a, const Tensor& b) {
  for (int i = 0; i < a.dim(); ++i)
    if (a.sizes()[i] > 1 && a.strides()[i] != b.strides()[i]) return false;
  return true;
}

// The gradient in the parameter's layout, whatever made it.
Tensor laid_out_like(const Tensor& param, const Tensor& grad) {
  if (grad.sizes() != param.sizes() || laid_out_alike(grad, param) ||
      !is_dense(param.sizes(), param.strides()))
    return grad;
  Tensor result = empty_strided(param.sizes(), param.strides(),
                                {.dtype = grad.dtype(), .device = grad.device()});
  copy_(result, grad);
  return result;
}

}  // namespace

constinit OpDef<AdamAttrs> adam_op = define(Op<AdamAttrs>{
    .name = "adam",
    .inputs = {"param", "exp_avg", "exp_avg_sq", "grad", "state_step?"},
    .infer =
        [](Infer& infer, const AdamAttrs& attrs) {
          const Tensor& param = infer[0];
          infer.check(param.is_floating_point(), "expected floating-point parameters, got ",
                      param.dtype());
          infer.check(attrs.step >= 1, "steps are counted from 1, got ", attrs.step);
          if (infer.has(4))
            infer.check(infer[4].dtype() == kFloat32 && infer[4].numel() == 1,
                        "the step must be one float32 number, got ", infer[4].dtype(), " of shape ",
                        infer[4].sizes());
          for (size_t i = 1; i < 4; ++i)
            infer.check(infer[i].sizes() == param.sizes() && infer[i].dtype() == param.dtype(),
                        "all tensors must be ", param.dtype(), " of shape ", param.sizes(),
                        ", got ", infer[i].dtype(), " of shape ", infer[i].sizes());
          infer.check(is_dense(param.sizes(), param.strides()),
                      "the parameter must be dense (without gaps), got shape ", param.sizes(),
                      " and strides ", param.strides());
          for (size_t i = 1; i < 4; ++i)
            infer.check(
                laid_out_alike(infer[i], param),
                "parameter, moments and gradient must be laid out alike (equal strides), got ",
                param.strides(), " and ", infer[i].strides());
          for (int i = 0; i < 3; ++i) infer.output(param.sizes(), param.strides(), param.dtype());
        },
    .reference = stepped,
    .gradient = Gradient::not_differentiable,
});

void register_adam(OpRegistry& registry) { registry.add(adam_op); }

void adam_(const Tensor& param, const Tensor& exp_avg, const Tensor& exp_avg_sq, const Tensor& grad,
           const AdamAttrs& attrs) {
  const no_grad silent;
  apply_inplace(adam_op, {param, exp_avg, exp_avg_sq, laid_out_like(param, grad)}, attrs);
}

void adam_(const Tensor& param, const Tensor& exp_avg, const Tensor& exp_avg_sq, const Tensor& grad,
           const Tensor& step, const AdamAttrs& attrs) {
  const no_grad silent;
  apply_inplace(adam_op, {param, exp_avg, exp_avg_sq, laid_out_like(param, grad), step}, attrs);
}

}  // namespace tensora

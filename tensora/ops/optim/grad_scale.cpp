#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/optim/grad_scale_op.h"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

Args gradients(Args in, const ListUnscaleAttrs& attrs) {
  return in.subspan(1, in.size() - (attrs.check_only ? 1 : 2));
}

void check_number(const Infer& infer, const Tensor& number, const char* what) {
  infer.check(number.dtype() == kFloat32 && number.numel() == 1, what,
              " must be one float32 number, got ", number.dtype(), " of shape ", number.sizes());
}

void infer_unscale(Infer& infer, const ListUnscaleAttrs& attrs) {
  infer.check(attrs.check_only || infer.inputs.size() >= 2, "inv_scale is missing");
  check_number(infer, infer[0], "found_inf");
  if (!attrs.check_only) check_number(infer, infer[infer.inputs.size() - 1], "inv_scale");
  infer.output(infer[0].sizes(), infer[0].strides(), kFloat32);
  for (const Arg& grad : gradients(infer.inputs, attrs)) {
    infer.check(grad->is_floating_point(), "expected floating-point gradients, got ",
                grad->dtype());
    infer.check(is_dense(grad->sizes(), grad->strides()),
                "gradients must be dense (without gaps), got shape ", grad->sizes(),
                " and strides ", grad->strides());
    if (!attrs.check_only) infer.output(grad->sizes(), grad->strides(), grad->dtype());
  }
}

Tensors unscale_reference(Args in, const ListUnscaleAttrs& attrs) {
  Tensor found = *in[0];
  Tensors out{found};
  for (const Arg& grad : gradients(in, attrs)) {
    const Tensor infinite = to(any(logical_not(isfinite(*grad))), kFloat32);
    found = maximum(found, reshape(infinite, found.sizes()));
    if (attrs.check_only) continue;
    const DType wide = promote_types(grad->dtype(), kFloat32);
    const Tensor factor = to(reshape(*in[in.size() - 1], {}), wide);
    Tensor result = empty_strided(grad->sizes(), grad->strides(),
                                  {.dtype = grad->dtype(), .device = grad->device()});
    copy_(result, to(*grad, wide) * factor);
    out.push_back(result);
  }
  out[0] = found.is_same(*in[0]) ? clone(found) : found;
  return out;
}

Tensors update_reference(Args in, const UpdateScaleAttrs& attrs) {
  const Tensor &scale = *in[0], &tracker = *in[1];
  const Tensor infinite = reshape(*in[2], scale.sizes()) != 0;
  const Tensor successes = tracker + 1, due = successes == attrs.growth_interval;
  const Tensor grown = scale * attrs.growth_factor;
  const Tensor kept = where(logical_and(due, isfinite(grown)), grown, scale);
  return {where(infinite, scale * attrs.backoff_factor, kept),
          where(logical_or(infinite, due), zeros_like(tracker), successes)};
}

}  // namespace

constinit OpDef<ListUnscaleAttrs> list_unscale_op = define(Op<ListUnscaleAttrs>{
    .name = "list_unscale",
    .inputs = {"found_inf", "tensors..."},
    .infer = infer_unscale,
    .reference = unscale_reference,
    .gradient = Gradient::not_differentiable,
});

constinit OpDef<UpdateScaleAttrs> update_scale_op = define(Op<UpdateScaleAttrs>{
    .name = "update_scale",
    .inputs = {"scale", "growth_tracker", "found_inf"},
    .infer =
        [](Infer& infer, const UpdateScaleAttrs& attrs) {
          check_number(infer, infer[0], "scale");
          check_number(infer, infer[2], "found_inf");
          infer.check(infer[1].dtype() == kInt32 && infer[1].sizes() == infer[0].sizes(),
                      "growth_tracker must be one int32 number, got ", infer[1].dtype(),
                      " of shape ", infer[1].sizes());
          infer.check(attrs.growth_interval > 0, "growth_interval must be positive, got ",
                      attrs.growth_interval);
          infer.output(infer[0].sizes(), kFloat32);
          infer.output(infer[1].sizes(), kInt32);
        },
    .reference = update_reference,
    .gradient = Gradient::not_differentiable,
});

void register_grad_scale(OpRegistry& registry) {
  registry.add(list_unscale_op);
  registry.add(update_scale_op);
}

}  // namespace tensora

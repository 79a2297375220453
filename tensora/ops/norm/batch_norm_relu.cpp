#include "tensora/ops/copy/copy.h"
#include "tensora/ops/norm/batch_norm_relu_op.h"
#include "tensora/ops/norm/channel_checks.h"
#include "tensora/ops/norm/channel_norm.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

void infer_result(Infer& infer, const BatchNormReluAttrs&) {
  const Tensor& x = infer[0];
  infer.check(x.is_floating_point() && x.dim() >= 2,
              "expected a floating-point input of at least two dims, got ", x.dtype(), " of shape ",
              x.sizes());
  check_channels(infer, 1, "weight");
  check_channels(infer, 2, "bias");
  infer.check(!infer.has(3) || (infer[3].sizes() == x.sizes() && infer[3].dtype() == x.dtype()),
              "residual must be as the input, ", x.dtype(), " of shape ", x.sizes(), ", got ",
              infer.has(3) ? infer[3].dtype() : x.dtype(), " of shape ",
              infer.has(3) ? infer[3].sizes() : x.sizes());
  infer.output(x.sizes(), kept_strides(x.sizes(), x.strides()), x.dtype());
  for (int k = 0; k < 2; ++k) infer.output({x.size(1)}, statistics_dtype(x.dtype()));
}

Tensors result_definition(Args in, const BatchNormReluAttrs& attrs) {
  const Tensor none, residual = optional_input(in, 3);
  Tensors all = apply_all(batch_norm_op, {*in[0], none, none, *in[1], *in[2]}, {true, attrs.eps});
  all[0] = relu(residual.defined() ? all[0] + residual : all[0]);
  return all;
}

Tensors backward_definition(Args in, const BatchNormReluAttrs& attrs) {
  const Tensor &grad = *in[0], &x = *in[1], result = optional_input(in, 6);
  Tensor value = result;
  if (!result.defined()) {
    const DType wide = statistics_dtype(x.dtype());
    Shape along = Shape::filled(x.dim(), 1);
    along[1] = x.size(1);
    const auto channels = [&](const Tensor& values) { return reshape(to(values, wide), along); };
    value = (to(x, wide) - channels(*in[2])) *
                (channels(*in[4]) * rsqrt(channels(*in[3]) + attrs.eps)) +
            channels(*in[5]);
  }
  const Tensor masked = where(value <= 0, 0, grad);
  Tensors grads = apply_all(batch_norm_backward_op, {masked, x, *in[2], *in[3], *in[4]},
                            {true, attrs.eps, true, true});
  if (result.defined()) grads.push_back(masked);
  return grads;
}

void result_vjp(Vjp& vjp, const BatchNormReluAttrs& attrs) {
  const bool added = vjp.input_count() > 3 && !vjp.input_sizes(3).empty();
  const Tensor x = vjp.input(0), mean = vjp.output(1), variance = vjp.output(2);
  const Tensor result = added ? vjp.output(0) : Tensor();
  Tensor of_x;
  if (vjp.grad().defined()) {
    const Tensors grads =
        apply_all(batch_norm_relu_backward_op,
                  {vjp.grad(), x, mean, variance, vjp.input(1), vjp.input(2), result}, attrs);
    of_x = grads[0];
    for (size_t i : {1u, 2u})
      if (vjp.needs(i)) vjp.set(i, grads[i]);
    if (added && vjp.needs(3)) vjp.set(3, grads[3]);
  }
  if (vjp.grad(1).defined() || vjp.grad(2).defined()) {
    const Tensor more = through_statistics(x, mean, vjp.grad(1), vjp.grad(2));
    of_x = of_x.defined() ? of_x + more : more;
  }
  if (vjp.needs(0)) vjp.set(0, of_x);
}

}  // namespace

constinit OpDef<BatchNormReluAttrs> batch_norm_relu_op = define(Op<BatchNormReluAttrs>{
    .name = "batch_norm_relu",
    .inputs = {"input", "weight", "bias", "residual?"},
    .infer = infer_result,
    .reference = result_definition,
    .vjp = result_vjp,
    .saves = Saves().rest(in(0) | in(1) | in(2) | out(0) | out(1) | out(2)),
});

constinit OpDef<BatchNormReluAttrs> batch_norm_relu_backward_op = define(Op<BatchNormReluAttrs>{
    .name = "batch_norm_relu_backward",
    .inputs = {"grad", "input", "mean", "var", "weight", "bias", "result?"},
    .internal = true,
    .infer =
        [](Infer& infer, const BatchNormReluAttrs&) {
          const Tensor& x = infer[1];
          const Strides strides = kept_strides(x.sizes(), x.strides());
          infer.output(x.sizes(), strides, x.dtype());
          for (int k = 0; k < 2; ++k) infer.output({x.size(1)}, infer[4].dtype());
          if (infer.has(6)) infer.output(x.sizes(), strides, x.dtype());
        },
    .reference = backward_definition,
    .gradient = Gradient::by_reference,
});

void register_batch_norm_relu(OpRegistry& registry) {
  registry.add(batch_norm_relu_op);
  registry.add(batch_norm_relu_backward_op);
}

Tensor batch_norm_relu(const Tensor& input, const Tensor& residual, const Tensor& running_mean,
                       const Tensor& running_var, const Tensor& weight, const Tensor& bias,
                       double momentum, double eps) {
  check(input.dim() >= 2 && input.numel() > input.size(1),
        "batch_norm_relu: expected more than 1 value per channel, got input shape ", input.sizes());
  Tensors all = apply_all(batch_norm_relu_op, {input, weight, bias, residual}, {eps});
  move_statistics(input.sizes(), running_mean, running_var, all[1], all[2], momentum);
  return std::move(all[0]);
}

}  // namespace tensora

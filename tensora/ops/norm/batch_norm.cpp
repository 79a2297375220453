#include "tensora/ops/norm/batch_norm.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/norm/channel_checks.h"
#include "tensora/ops/norm/channel_norm.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/reduce/variance.h"
#include "tensora/ops/shape/repeat.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

// All dims but the channels.
Dims other_dims(int rank) {
  Dims dims = {0};
  for (int d = 2; d < rank; ++d) dims.push_back(d);
  return dims;
}
double elements_per_channel(const Shape& sizes) {
  double count = 1;
  for (int d = 0; d < sizes.size(); ++d) count *= d == 1 ? 1 : static_cast<double>(sizes[d]);
  return count;
}

// One value per channel, as it meets a tensor of `rank` dims.
Tensor per_channel(const Tensor& values, int rank) {
  Shape sizes = Shape::filled(rank, 1);
  sizes[1] = values.numel();
  return reshape(values, sizes);
}

void infer_batch_norm(Infer& infer, const BatchNormAttrs& attrs) {
  const Tensor& x = infer[0];
  infer.check(x.is_floating_point(), "expected a floating-point input, got ", x.dtype());
  infer.check(x.dim() >= 2, "expected an input of at least two dims, got shape ", x.sizes());
  infer.check(attrs.training || (infer.has(1) && infer.has(2)),
              "running_mean and running_var must be given unless training");
  check_channels(infer, 1, "running_mean");
  check_channels(infer, 2, "running_var");
  check_channels(infer, 3, "weight");
  check_channels(infer, 4, "bias");
  infer.output(x.sizes(), kept_strides(x.sizes(), x.strides()), x.dtype());
  if (!attrs.training) return;
  for (int k = 0; k < 2; ++k) infer.output({x.sizes()[1]}, statistics_dtype(x.dtype()));
}

Tensors batch_norm_reference(Args in, const BatchNormAttrs& attrs) {
  const DType wide = statistics_dtype(in[0]->dtype());
  const Tensor x = to(*in[0], wide), weight = optional_input(in, 3), bias = optional_input(in, 4);
  const int rank = x.dim();
  const auto channels = [&](const Tensor& values) { return per_channel(to(values, wide), rank); };
  const Tensor average = attrs.training ? mean(x, other_dims(rank)) : *in[1];
  const Tensor variance = attrs.training ? var(x, other_dims(rank), 0) : *in[2];
  Tensor y = (x - channels(average)) * rsqrt(channels(variance) + attrs.eps);
  if (weight.defined()) y = y * channels(weight);
  if (bias.defined()) y = y + channels(bias);
  Tensors result{to(y, in[0]->dtype())};
  if (attrs.training) {
    result.push_back(average);
    result.push_back(variance);
  }
  return result;
}

Tensors backward_reference(Args in, const BatchNormBackwardAttrs& attrs) {
  const DType wide = statistics_dtype(in[1]->dtype());
  const Tensor grad = to(*in[0], wide), x = to(*in[1], wide), weight = optional_input(in, 4);
  const int rank = x.dim();
  const Dims dims = other_dims(rank);
  const auto channels = [&](const Tensor& values) { return per_channel(to(values, wide), rank); };
  const Tensor rstd = rsqrt(channels(*in[3]) + attrs.eps);
  const Tensor values = (x - channels(*in[2])) * rstd;
  Tensor through = grad;
  if (attrs.training)
    through = grad - mean(grad, dims, true) - values * mean(grad * values, dims, true);
  through = through * rstd;
  if (weight.defined()) through = through * channels(weight);
  Tensors result{to(through, in[1]->dtype())};
  const DType dtype = weight.defined() ? weight.dtype() : wide;
  if (attrs.weight) result.push_back(to(sum(grad * values, dims), dtype));
  if (attrs.bias) result.push_back(to(sum(grad, dims), dtype));
  return result;
}

}  // namespace

Tensor through_statistics(const Tensor& x, const Tensor& mean, const Tensor& grad_mean,
                          const Tensor& grad_var) {
  const double count = elements_per_channel(x.sizes());
  const Tensor wide = to(x, mean.dtype());
  Tensor result = wide * 0;
  if (grad_var.defined())
    result = (wide - per_channel(mean, x.dim())) * (per_channel(grad_var, x.dim()) * (2 / count));
  return grad_mean.defined() ? result + per_channel(grad_mean, x.dim()) / count : result;
}

namespace {

void batch_norm_vjp(Vjp& vjp, const BatchNormAttrs& attrs) {
  const auto is_given = [&](size_t i) {
    return i < vjp.input_count() && !vjp.input_sizes(i).empty();
  };
  check(!((is_given(1) && vjp.needs(1)) || (is_given(2) && vjp.needs(2))),
        "batch_norm: running_mean and running_var have no gradients");
  const Tensor x = vjp.input(0), weight = is_given(3) ? vjp.input(3) : Tensor();
  const Tensor mean = attrs.training ? vjp.output(1) : vjp.input(1);
  const Tensor variance = attrs.training ? vjp.output(2) : vjp.input(2);
  const BatchNormBackwardAttrs wanted{attrs.training, attrs.eps, is_given(3) && vjp.needs(3),
                                      is_given(4) && vjp.needs(4)};
  Tensor of_x;
  if (vjp.grad().defined()) {
    const Tensors grads =
        apply_all(batch_norm_backward_op, {vjp.grad(), x, mean, variance, weight}, wanted);
    size_t next = 1;
    of_x = grads[0];
    if (wanted.weight) vjp.set(3, grads[next++]);
    if (wanted.bias) vjp.set(4, grads[next++]);
  }
  if (attrs.training && (vjp.grad(1).defined() || vjp.grad(2).defined())) {
    const Tensor more = through_statistics(x, mean, vjp.grad(1), vjp.grad(2));
    of_x = of_x.defined() ? of_x + more : more;
  }
  if (vjp.needs(0)) vjp.set(0, of_x);
}

}  // namespace

constinit OpDef<BatchNormAttrs> batch_norm_op = define(Op<BatchNormAttrs>{
    .name = "batch_norm",
    .inputs = {"input", "running_mean?", "running_var?", "weight?", "bias?"},
    .infer = infer_batch_norm,
    .reference = batch_norm_reference,
    .vjp = batch_norm_vjp,
    .saves = Saves().rest(in(0) | in(1) | in(2) | in(3) | out(1) | out(2)),
});

constinit OpDef<BatchNormBackwardAttrs> batch_norm_backward_op = define(Op<BatchNormBackwardAttrs>{
    .name = "batch_norm_backward",
    .inputs = {"grad", "input", "mean", "var", "weight?"},
    .internal = true,
    .infer =
        [](Infer& infer, const BatchNormBackwardAttrs& attrs) {
          const Tensor& x = infer[1];
          infer.output(x.sizes(), kept_strides(x.sizes(), x.strides()), x.dtype());
          const DType dtype = infer.has(4) ? infer[4].dtype() : statistics_dtype(x.dtype());
          if (attrs.weight) infer.output({x.sizes()[1]}, dtype);
          if (attrs.bias) infer.output({x.sizes()[1]}, dtype);
        },
    .reference = backward_reference,
    .gradient = Gradient::by_reference,
});

constinit OpDef<BatchNormUpdateAttrs> batch_norm_update_op = define(Op<BatchNormUpdateAttrs>{
    .name = "batch_norm_update",
    .inputs = {"running_mean", "running_var", "mean", "var"},
    .internal = true,
    .infer =
        [](Infer& infer, const BatchNormUpdateAttrs&) {
          for (size_t i = 0; i < 2; ++i) infer.output(infer[i].sizes(), infer[i].dtype());
        },
    .reference =
        [](Args in, const BatchNormUpdateAttrs& attrs) {
          const double count = static_cast<double>(attrs.count);
          const auto moved = [&](const Tensor& from, const Tensor& to, double factor) {
            return tensora::to(from * (1 - attrs.momentum) + to * (attrs.momentum * factor),
                               from.dtype());
          };
          return Tensors{moved(*in[0], *in[2], 1), moved(*in[1], *in[3], count / (count - 1))};
        },
    .gradient = Gradient::not_differentiable,
});

void register_batch_norm(OpRegistry& registry) {
  registry.add(batch_norm_op);
  registry.add(batch_norm_backward_op);
  registry.add(batch_norm_update_op);
  shard_by(batch_norm_update_op, "writes");
  shard_by(batch_norm_op, "nonempty .c~,c->.c~,c");
}

void move_statistics(const Shape& input, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& mean, const Tensor& var, double momentum) {
  const Shape channels = {input[1]};
  check(running_mean.sizes() == channels && running_var.sizes() == channels,
        "batch_norm: running_mean and running_var must have shape ", channels, ", got ",
        running_mean.sizes(), " and ", running_var.sizes());
  const no_grad silent;
  const auto count = static_cast<int64_t>(elements_per_channel(input));
  apply_inplace(batch_norm_update_op, {running_mean, running_var, mean, var}, {momentum, count});
}

namespace {

Tensor normalized(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum,
                  double eps) {
  check(running_mean.defined() == running_var.defined(),
        "batch_norm: running_mean and running_var must be given together, or neither");
  if (!training)
    return apply(batch_norm_op, {input, running_mean, running_var, weight, bias}, {false, eps});
  check_as<ValueError>(
      input.dim() < 2 || elements_per_channel(input.sizes()) != 1,
      "batch_norm: expected more than 1 value per channel when training, got input shape ",
      input.sizes());
  const Tensor none;
  Tensors all = apply_all(batch_norm_op, {input, none, none, weight, bias}, {true, eps});
  if (running_mean.defined() && input.numel() > 0)
    move_statistics(input.sizes(), running_mean, running_var, all[1], all[2], momentum);
  return std::move(all[0]);
}

}  // namespace

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, bool training, double momentum,
                  double eps) {
  check_as<ValueError>(training ? eps > 0 : eps >= 0, "batch_norm: eps must ",
                       training ? "be positive in training" : "not be negative", ", got ", eps);
  return normalized(input, running_mean, running_var, weight, bias, training, momentum, eps);
}

// Samples and channels together are the channels of one large sample.
Tensor instance_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias, bool use_input_stats,
                     double momentum, double eps) {
  check(input.dim() >= 2, "instance_norm: expected an input of at least two dims, got shape ",
        input.sizes());
  check(running_mean.defined() == running_var.defined(),
        "instance_norm: running_mean and running_var must be given together, or neither");
  if (!use_input_stats) {
    check(running_mean.defined(),
          "instance_norm: running_mean and running_var must be given if use_input_stats is false");
    return normalized(input, running_mean, running_var, weight, bias, false, momentum, eps);
  }
  const int64_t samples = input.sizes()[0], channels = input.sizes()[1];
  check_as<ValueError>(
      input.numel() == 0 || input.numel() != samples * channels,
      "instance_norm: expected more than 1 spatial element when training, got input shape ",
      input.sizes());
  if (input.numel() == 0) return normalized(input, {}, {}, weight, bias, true, momentum, eps);
  Shape sizes = input.sizes();
  sizes[0] = 1;
  sizes[1] = samples * channels;
  const auto repeated = [&](const Tensor& values) {
    return values.defined() ? repeat(values, {samples}) : values;
  };
  const Tensor mean = repeated(running_mean), variance = repeated(running_var);
  const Tensor result = normalized(reshape(input, sizes), mean, variance, repeated(weight),
                                   repeated(bias), true, momentum, eps);
  if (running_mean.defined()) {
    const no_grad silent;
    copy_(running_mean, tensora::mean(reshape(mean, {samples, channels}), {0}));
    copy_(running_var, tensora::mean(reshape(variance, {samples, channels}), {0}));
  }
  return reshape(result, input.sizes());
}

}  // namespace tensora

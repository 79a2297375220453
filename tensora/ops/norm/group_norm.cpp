#include "tensora/ops/norm/group_norm.h"

#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/norm/channel_checks.h"
#include "tensora/ops/norm/group_norm_ops.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/reduce/variance.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

// [N, G, D, S]: samples, groups, channels of a group, elements of a channel.
Shape grouped(const Shape& sizes, int64_t groups) {
  int64_t inner = 1;
  for (int d = 2; d < sizes.size(); ++d) inner *= sizes[d];
  return {sizes[0], groups, sizes[1] / groups, inner};
}
// One value per channel, or per sample and group, as it meets such a tensor.
Tensor per_channel(const Tensor& values, DType dtype, int64_t groups) {
  return reshape(to(values, dtype), {1, groups, values.numel() / groups, 1});
}
Tensor per_group(const Tensor& values) {
  return reshape(values, {values.sizes()[0], values.sizes()[1], 1, 1});
}
void infer_group_norm(Infer& infer, const GroupNormAttrs& attrs) {
  const Tensor& x = infer[0];
  infer.check(x.is_floating_point(), "expected a floating-point input, got ", x.dtype());
  infer.check(x.dim() >= 2, "expected an input of at least two dims, got shape ", x.sizes());
  infer.check(attrs.num_groups > 0, "expected num_groups > 0, got ", attrs.num_groups);
  infer.check(x.sizes()[1] > 0, "expected the number of channels to be greater than 0, got shape ",
              x.sizes());
  infer.check(x.sizes()[1] % attrs.num_groups == 0, "the channels of an input of shape ", x.sizes(),
              " cannot be divided into ", attrs.num_groups, " groups");
  check_channels(infer, 1, "weight");
  check_channels(infer, 2, "bias");
  infer.output(x.sizes(), x.dtype());
  for (int k = 0; k < 2; ++k)
    infer.output({x.sizes()[0], attrs.num_groups}, statistics_dtype(x.dtype()));
}

Tensors group_norm_reference(Args in, const GroupNormAttrs& attrs) {
  const DType wide = statistics_dtype(in[0]->dtype());
  const Tensor x = reshape(to(*in[0], wide), grouped(in[0]->sizes(), attrs.num_groups));
  const Tensor weight = optional_input(in, 1), bias = optional_input(in, 2);
  const Tensor average = mean(x, {2, 3}), variance = var(x, {2, 3}, 0);
  Tensor y = (x - per_group(average)) * rsqrt(per_group(variance) + attrs.eps);
  if (weight.defined()) y = y * per_channel(weight, wide, attrs.num_groups);
  if (bias.defined()) y = y + per_channel(bias, wide, attrs.num_groups);
  return {to(reshape(y, in[0]->sizes()), in[0]->dtype()), average, variance};
}

Tensors backward_reference(Args in, const GroupNormBackwardAttrs& attrs) {
  const DType wide = statistics_dtype(in[1]->dtype());
  const Shape sizes = grouped(in[1]->sizes(), attrs.num_groups), channels = {in[1]->sizes()[1]};
  const Tensor grad = reshape(to(*in[0], wide), sizes), x = reshape(to(*in[1], wide), sizes);
  const Tensor weight = optional_input(in, 4);
  const Tensor rstd = rsqrt(per_group(*in[3]) + attrs.eps);
  const Tensor values = (x - per_group(*in[2])) * rstd;
  const Tensor scaled =
      weight.defined() ? grad * per_channel(weight, wide, attrs.num_groups) : grad;
  const Tensor through =
      scaled - mean(scaled, {2, 3}, true) - values * mean(scaled * values, {2, 3}, true);
  Tensors result{to(reshape(through * rstd, in[1]->sizes()), in[1]->dtype())};
  const DType dtype = weight.defined() ? weight.dtype() : wide;
  const auto of_channels = [&](const Tensor& terms) {
    return to(reshape(sum(terms, {0, 3}), channels), dtype);
  };
  if (attrs.weight) result.push_back(of_channels(grad * values));
  if (attrs.bias) result.push_back(of_channels(grad));
  return result;
}

// The gradients that reach the input through the statistics: only those of higher order do.
Tensor through_statistics(const Tensor& input, const Tensor& mean, const Tensor& grad_mean,
                          const Tensor& grad_var, int64_t groups) {
  const Shape sizes = grouped(input.sizes(), groups);
  const double count = static_cast<double>(sizes[2] * sizes[3]);
  const Tensor x = reshape(to(input, mean.dtype()), sizes);
  Tensor result = x * 0;
  if (grad_var.defined()) result = (x - per_group(mean)) * (per_group(grad_var) * (2 / count));
  if (grad_mean.defined()) result = result + per_group(grad_mean) / count;
  return reshape(result, input.sizes());
}

void group_norm_vjp(Vjp& vjp, const GroupNormAttrs& attrs) {
  const auto is_given = [&](size_t i) {
    return i < vjp.input_count() && !vjp.input_sizes(i).empty();
  };
  const Tensor x = vjp.input(0), mean = vjp.output(1), variance = vjp.output(2),
               weight = is_given(1) ? vjp.input(1) : Tensor();
  const GroupNormBackwardAttrs wanted{attrs.num_groups, attrs.eps, is_given(1) && vjp.needs(1),
                                      is_given(2) && vjp.needs(2)};
  Tensor of_x;
  if (vjp.grad().defined()) {
    const Tensors grads =
        apply_all(group_norm_backward_op, {vjp.grad(), x, mean, variance, weight}, wanted);
    size_t next = 1;
    of_x = grads[0];
    if (wanted.weight) vjp.set(1, grads[next++]);
    if (wanted.bias) vjp.set(2, grads[next++]);
  }
  if (vjp.grad(1).defined() || vjp.grad(2).defined()) {
    const Tensor more = through_statistics(x, mean, vjp.grad(1), vjp.grad(2), attrs.num_groups);
    of_x = of_x.defined() ? of_x + more : more;
  }
  if (vjp.needs(0)) vjp.set(0, of_x);
}

}  // namespace

constinit OpDef<GroupNormAttrs> group_norm_op = define(Op<GroupNormAttrs>{
    .name = "group_norm",
    .inputs = {"input", "weight?", "bias?"},
    .infer = infer_group_norm,
    .reference = group_norm_reference,
    .vjp = group_norm_vjp,
    .saves = Saves().rest(in(0) | in(1) | out(1) | out(2)),
    .autocast = {Autocast::as_is, Autocast::full},
});

constinit OpDef<GroupNormBackwardAttrs> group_norm_backward_op = define(Op<GroupNormBackwardAttrs>{
    .name = "group_norm_backward",
    .inputs = {"grad", "input", "mean", "var", "weight?"},
    .internal = true,
    .infer =
        [](Infer& infer, const GroupNormBackwardAttrs& attrs) {
          const Tensor& x = infer[1];
          infer.output(x.sizes(), x.dtype());
          const DType dtype = infer.has(4) ? infer[4].dtype() : statistics_dtype(x.dtype());
          if (attrs.weight) infer.output({x.sizes()[1]}, dtype);
          if (attrs.bias) infer.output({x.sizes()[1]}, dtype);
        },
    .reference = backward_reference,
    .gradient = Gradient::by_reference,
});

void register_group_norm(OpRegistry& registry) {
  registry.add(group_norm_op);
  registry.add(group_norm_backward_op);
  shard_by(group_norm_op, "nonempty n~,.->n~");
}

Tensor group_norm(const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  return std::move(
      apply_all(group_norm_op, {contiguous(input), weight, bias}, {num_groups, eps})[0]);
}

}  // namespace tensora

#include "tensora/ops/matrix/linear_activation.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops.h"
#include "tensora/ops/matrix/activation_gradient.h"
#include "tensora/ops/matrix/linear_gradients.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/activations.h"
#include "tensora/ops/pointwise/exponential.h"
#include "tensora/ops/pointwise/pointwise.h"
#include "tensora/ops/pointwise/smooth_activations.h"
#include "tensora/ops/pointwise/trigonometry.h"

namespace tensora {

constexpr auto describe(std::type_identity<LinearActivationAttrs>) {
  return fields(field("activation", &LinearActivationAttrs::activation),
                field("keep_argument", &LinearActivationAttrs::keep_argument));
}

namespace {

void infer_linear(Infer& infer, const LinearActivationAttrs& attrs) {
  const Tensor &x = infer[0], &weight = infer[1];
  infer.check(x.is_floating_point() && x.dtype() == weight.dtype() &&
                  (!infer.has(2) || infer[2].dtype() == x.dtype()),
              "input, weight and bias must have one floating-point dtype, got ", x.dtype(), ", ",
              weight.dtype(), infer.has(2) ? " and " : "",
              infer.has(2) ? name(infer[2].dtype()) : std::string_view());
  infer.check(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1), "input of shape ",
              x.sizes(), " does not fit weight of shape ", weight.sizes(), " (out, in)");
  infer.check(!infer.has(2) || infer[2].sizes() == Shape{weight.size(0)}, "bias must have shape [",
              weight.size(0), "], got ", infer.has(2) ? infer[2].sizes() : Shape());
  infer.output({x.size(0), weight.size(0)}, x.dtype());
  if (attrs.keep_argument) infer.output({x.size(0), weight.size(0)}, x.dtype());
}

Tensor activated(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu(x, "tanh");
    case Activation::silu:
      return silu(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::tanh:
      return tanh(x);
  }
  return x;
}

// The gradient of a functor's argument in one pass; `kept` is what its formula needs, argument or
// result.
template <class F>
Tensor functor_gradient(const Tensor& grad, const Tensor& kept) {
  using B = functors::Backward<F, 0>;
  return apply(pointwise_op<B>(), {grad, kept}, B{{}, F{}});
}

}  // namespace

bool needs_argument(Activation activation) {
  return activation == Activation::gelu || activation == Activation::gelu_tanh ||
         activation == Activation::silu;
}

Tensor argument_gradient(const Tensor& grad, const Tensor& kept, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return functor_gradient<functors::Relu>(grad, kept);
    case Activation::gelu:
      return functor_gradient<functors::Gelu>(grad, kept);
    case Activation::gelu_tanh:
      return functor_gradient<functors::GeluTanh>(grad, kept);
    case Activation::silu:
      return functor_gradient<functors::Silu>(grad, kept);
    case Activation::sigmoid:
      return functor_gradient<functors::Sigmoid>(grad, kept);
    case Activation::tanh:
      return functor_gradient<functors::Tanh>(grad, kept);
    case Activation::none:
      break;
  }
  return grad;
}

Activation activation_called(std::string_view op, std::string_view activation) {
  constexpr auto names = names_of(std::type_identity<Activation>{});
  const auto found = std::find(names.begin(), names.end(), activation);
  check(found != names.end(), op, ": unknown activation '", activation,
        "'; expected none, relu, gelu, gelu_tanh, silu, sigmoid or tanh");
  return static_cast<Activation>(found - names.begin());
}

namespace {

Tensors linear_definition(Args in, const LinearActivationAttrs& attrs) {
  const Tensor bias = in.size() > 2 ? *in[2] : Tensor();
  const Tensor argument = linear(*in[0], *in[1], bias);
  Tensors result{activated(argument, attrs.activation)};
  if (attrs.activation == Activation::none) result[0] = clone(argument);
  if (attrs.keep_argument) result.push_back(argument);
  return result;
}

void linear_vjp(Vjp& vjp, const LinearActivationAttrs& attrs) {
  const bool has_bias = vjp.input_count() > 2 && vjp.input_sizes(2).size() > 0;
  const Tensor x = vjp.input(0), weight = vjp.input(1);
  Tensor grad;
  if (vjp.grad(0).defined()) {
    Tensor kept;
    if (!needs_argument(attrs.activation))
      kept = vjp.output(0);
    else if (attrs.keep_argument)
      kept = vjp.output(1);
    else  // called by name
      kept = linear(x, weight, has_bias ? vjp.input(2) : Tensor());
    grad = argument_gradient(vjp.grad(0), kept, attrs.activation);
  }
  if (attrs.keep_argument && vjp.grad(1).defined())
    grad = grad.defined() ? grad + vjp.grad(1) : vjp.grad(1);
  if (!grad.defined()) return;
  if (vjp.needs(0)) vjp.set(0, matmul(grad, weight));
  const bool of_bias = has_bias && vjp.needs(2);
  if (of_bias && vjp.needs(1)) {
    const Tensors both = apply_all(linear_gradients_op, {grad, x}, {});
    vjp.set(1, both[0]);
    vjp.set(2, both[1]);
    return;
  }
  if (vjp.needs(1)) vjp.set(1, matmul(transpose(grad, 0, 1), x));
  if (of_bias) vjp.set(2, sum(grad, {0}));
}

}  // namespace

constinit OpDef<LinearActivationAttrs> linear_activation_op = define(Op<LinearActivationAttrs>{
    .name = "linear_activation",
    .inputs = {"input", "weight", "bias?"},
    .infer = infer_linear,
    .reference = linear_definition,
    .vjp = linear_vjp,
    .saves = Saves{}.rest(in(0) | in(1) | in(2) | out(0) | out(1)),
    .autocast = Autocast::lower,
});

void register_linear_activation(OpRegistry& registry) {
  registry.add(linear_activation_op);
  shard_by(linear_activation_op, "i.,k.,k->ik");
}

Tensor linear_activation(const Tensor& input, const Tensor& weight, const Tensor& bias,
                         std::string_view activation) {
  constexpr auto op = "linear_activation";
  LinearActivationAttrs attrs{activation_called(op, activation)};
  check(input.dim() >= 1, op, ": input must have at least 1 dimension");
  check(weight.dim() == 2, op, ": weight must have 2 dimensions (out, in), got shape ",
        weight.sizes());
  attrs.keep_argument =
      needs_argument(attrs.activation) && is_grad_enabled() &&
      (input.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad()));
  Shape sizes = input.sizes();
  const int64_t width = sizes[sizes.size() - 1];
  sizes[sizes.size() - 1] = weight.size(0);
  Shape rows = input.sizes();
  rows.resize(rows.size() - 1);
  const Tensor matrix = input.dim() == 2 ? input : reshape(input, {rows.numel(), width});
  return reshape(apply_all(linear_activation_op, {matrix, weight, bias}, attrs)[0], sizes);
}

}  // namespace tensora

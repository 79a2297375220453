#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops.h"
#include "tensora/ops/matrix/activation_gradient.h"
#include "tensora/ops/matrix/feed_forward_op.h"
#include "tensora/ops/matrix/linear_gradients.h"
#include "tensora/ops/operators.h"

namespace tensora {

constexpr auto describe(std::type_identity<FeedForwardAttrs>) {
  return fields(field("activation", &FeedForwardAttrs::activation),
                field("keep_argument", &FeedForwardAttrs::keep_argument));
}

namespace {

void infer_feed_forward(Infer& infer, const FeedForwardAttrs& attrs) {
  const Tensor &x = infer[0], &first = infer[1], &second = infer[2];
  for (size_t i = 0; i < infer.inputs.size(); ++i)
    infer.check(!infer.has(i) || (infer[i].is_floating_point() && infer[i].dtype() == x.dtype()),
                "input, weights and biases must have one floating-point dtype, got ", x.dtype(),
                " and ", infer.has(i) ? infer[i].dtype() : x.dtype());
  infer.check(x.dim() == 2 && first.dim() == 2 && second.dim() == 2 && x.size(1) == first.size(1) &&
                  first.size(0) == second.size(1),
              "input of shape ", x.sizes(), " does not fit weights of shapes ", first.sizes(),
              " and ", second.sizes(), " (out, in)");
  const auto check_bias = [&](size_t i, int64_t width) {
    infer.check(!infer.has(i) || infer[i].sizes() == Shape{width}, "bias", i - 2,
                " must have shape [", width, "], got ", infer.has(i) ? infer[i].sizes() : Shape());
  };
  check_bias(3, first.size(0));
  check_bias(4, second.size(0));
  infer.output({x.size(0), second.size(0)}, x.dtype());
  infer.output({x.size(0), first.size(0)}, x.dtype());
  if (attrs.keep_argument) infer.output({x.size(0), first.size(0)}, x.dtype());
}

Tensor optional(Args in, size_t i) { return i < in.size() ? *in[i] : Tensor(); }

Tensors feed_forward_definition(Args in, const FeedForwardAttrs& attrs) {
  const Tensors hidden = apply_all(linear_activation_op, {*in[0], *in[1], optional(in, 3)},
                                   {attrs.activation, attrs.keep_argument});
  Tensors result{linear(hidden[0], *in[2], optional(in, 4)), hidden[0]};
  if (attrs.keep_argument) result.push_back(hidden[1]);
  return result;
}

// The gradient of what the activation was applied to.
Tensor hidden_gradient(const Vjp& vjp, const FeedForwardAttrs& attrs, const Tensor& bias) {
  const bool of_argument = needs_argument(attrs.activation);
  Tensor grad;
  if (vjp.grad(0).defined() || vjp.grad(1).defined()) {
    Tensor kept = vjp.output(1);
    if (of_argument)  // without it, the op was called by name
      kept = attrs.keep_argument ? vjp.output(2) : linear(vjp.input(0), vjp.input(1), bias);
    if (!vjp.grad(1).defined() && attrs.activation == Activation::gelu_tanh) {
      grad = apply(gelu_gradient_product_op, {vjp.grad(0), vjp.input(2), kept});
    } else {
      Tensor of_hidden = vjp.grad(1);
      if (vjp.grad(0).defined()) {
        const Tensor product = matmul(vjp.grad(0), vjp.input(2));
        of_hidden = of_hidden.defined() ? of_hidden + product : product;
      }
      grad = argument_gradient(of_hidden, kept, attrs.activation);
    }
  }
  if (!attrs.keep_argument || !vjp.grad(2).defined()) return grad;
  return grad.defined() ? grad + vjp.grad(2) : vjp.grad(2);
}

// Of a layer's weight and bias.
void set_gradients(Vjp& vjp, const Tensor& grad, const Tensor& input, size_t weight, size_t bias,
                   bool has_bias) {
  const bool of_bias = has_bias && vjp.needs(bias);
  if (of_bias && vjp.needs(weight)) {
    const Tensors both = apply_all(linear_gradients_op, {grad, input}, {});
    vjp.set(weight, both[0]);
    vjp.set(bias, both[1]);
    return;
  }
  if (vjp.needs(weight)) vjp.set(weight, matmul(transpose(grad, 0, 1), input));
  if (of_bias) vjp.set(bias, sum(grad, {0}));
}

void feed_forward_vjp(Vjp& vjp, const FeedForwardAttrs& attrs) {
  const auto given = [&](size_t i) {
    return i < vjp.input_count() && vjp.input_sizes(i).size() > 0;
  };
  const Tensor x = vjp.input(0), hidden = vjp.output(1);
  if (vjp.grad(0).defined()) set_gradients(vjp, vjp.grad(0), hidden, 2, 4, given(4));
  if (!vjp.needs(0) && !vjp.needs(1) && !(given(3) && vjp.needs(3))) return;
  const Tensor grad = hidden_gradient(vjp, attrs, given(3) ? vjp.input(3) : Tensor());
  if (!grad.defined()) return;
  if (vjp.needs(0)) vjp.set(0, matmul(grad, vjp.input(1)));
  set_gradients(vjp, grad, x, 1, 3, given(3));
}

}  // namespace

constinit OpDef<FeedForwardAttrs> feed_forward_op = define(Op<FeedForwardAttrs>{
    .name = "feed_forward",
    .inputs = {"input", "weight1", "weight2", "bias1?", "bias2?"},
    .infer = infer_feed_forward,
    .reference = feed_forward_definition,
    .vjp = feed_forward_vjp,
    .saves = Saves{}.rest(in(0) | in(1) | in(2) | in(3) | out(1) | out(2)),
    .autocast = Autocast::lower,
});

constinit OpDef<NoAttrs> gelu_gradient_product_op = define(Op<NoAttrs>{
    .name = "gelu_gradient_product",
    .inputs = {"grad", "weight", "argument"},
    .internal = true,
    .infer = [](Infer& infer, const NoAttrs&) { infer.output(infer[2].sizes(), infer[2].dtype()); },
    .reference =
        [](Args in, const NoAttrs&) {
          return Tensors{argument_gradient(matmul(*in[0], *in[1]), *in[2], Activation::gelu_tanh)};
        },
    .gradient = Gradient::by_reference,
});

void register_feed_forward(OpRegistry& registry) {
  registry.add(feed_forward_op);
  registry.add(gelu_gradient_product_op);
}

Tensor feed_forward(const Tensor& input, const Tensor& weight1, const Tensor& bias1,
                    const Tensor& weight2, const Tensor& bias2, std::string_view activation) {
  constexpr auto op = "feed_forward";
  FeedForwardAttrs attrs{activation_called(op, activation)};
  check(input.dim() >= 1, op, ": input must have at least 1 dimension");
  check(weight2.dim() == 2, op, ": weight2 must have 2 dimensions (out, in), got shape ",
        weight2.sizes());
  bool recorded = false;
  for (const Tensor* tensor : {&input, &weight1, &bias1})
    recorded |= tensor->defined() && tensor->requires_grad();
  attrs.keep_argument = recorded && needs_argument(attrs.activation) && is_grad_enabled();
  Shape sizes = input.sizes();
  const int64_t width = sizes[sizes.size() - 1];
  sizes.resize(sizes.size() - 1);
  const Tensor matrix = input.dim() == 2 ? input : reshape(input, {sizes.numel(), width});
  sizes.push_back(weight2.size(0));
  return reshape(apply_all(feed_forward_op, {matrix, weight1, weight2, bias1, bias2}, attrs)[0],
                 sizes);
}

}  // namespace tensora

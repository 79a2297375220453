#include "tensora/ops/nn/gated.h"

#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/describe.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<GateAttrs>) {
  return fields(field("gate", &GateAttrs::gate), field("dim", &GateAttrs::dim));
}

namespace {

struct Halves {
  Tensor a, b;

  Halves(const Tensor& input, int64_t dim) {
    const int64_t half = input.size(dim) / 2;
    a = narrow(input, dim, 0, half);
    b = narrow(input, dim, half, half);
  }
  Halves(Args in, size_t first, int64_t dim) {
    if (in.size() > first + 1 && in[first + 1]->defined())
      a = *in[first], b = *in[first + 1];
    else
      *this = Halves(*in[first], dim);
  }
};

Shape halved(const Infer& infer, const Tensor& input, int64_t dim) {
  infer.check(input.dim() > 0, "expected an input with dims, got a number");
  const int at = wrap_dim(dim, input.dim(), infer.op);
  infer.check(input.size(at) % 2 == 0, "dim ", at, " must have an even size to be halved, got ",
              input.size(at), " of shape ", input.sizes());
  Shape sizes = input.sizes();
  sizes[at] /= 2;
  return sizes;
}

Tensors gate_backward_reference(Args in, const GateAttrs& attrs) {
  const Tensor& grad = *in[0];
  const Halves halves(in, 1, attrs.dim);
  const bool silu_first = attrs.gate == Gate::swiglu;
  const Tensor share = sigmoid(silu_first ? halves.a : halves.b);
  const Tensor slope = share * (1 - share);
  const Tensor first = silu_first ? grad * halves.b * (share + halves.a * slope) : grad * share;
  const Tensor second = silu_first ? grad * halves.a * share : grad * halves.a * slope;
  if (in.size() > 2 && in[2]->defined()) return Tensors{contiguous(first), contiguous(second)};
  return Tensors{contiguous(cat({first, second}, attrs.dim))};
}

}  // namespace

constinit OpDef<GateAttrs> gate_op = define(Op<GateAttrs>{
    .name = "gate",
    .inputs = {"a", "b?"},
    .infer =
        [](Infer& infer, const GateAttrs& attrs) {
          infer.check(infer[0].is_floating_point(), "expected floating-point inputs, got ",
                      infer[0].dtype());
          if (!infer.has(1))
            return infer.output(halved(infer, infer[0], attrs.dim), infer[0].dtype());
          infer.check(infer[0].sizes() == infer[1].sizes() && infer[0].dtype() == infer[1].dtype(),
                      "expected inputs of one shape and dtype, got ", infer[0].dtype(),
                      infer[0].sizes(), " and ", infer[1].dtype(), infer[1].sizes());
          infer.output(infer[0].sizes(), infer[0].dtype());
        },
    .reference =
        [](Args in, const GateAttrs& attrs) {
          const Halves halves(in, 0, attrs.dim);
          const Tensor result =
              attrs.gate == Gate::swiglu ? silu(halves.a) * halves.b : halves.a * sigmoid(halves.b);
          return Tensors{contiguous(result)};
        },
    .vjp =
        [](Vjp& vjp, const GateAttrs& attrs) {
          if (vjp.input_count() < 2) {
            vjp.set(0, apply(gate_backward_op, {vjp.grad(), vjp.input(0)}, attrs));
            return;
          }
          const Tensors both =
              apply_all(gate_backward_op, {vjp.grad(), vjp.input(0), vjp.input(1)}, attrs);
          vjp.set(0, both[0]);
          vjp.set(1, both[1]);
        },
    .saves = {in(0) | in(1), in(0) | in(1)},
});

constinit OpDef<GateAttrs> gate_backward_op = define(Op<GateAttrs>{
    .name = "gate_backward",
    .inputs = {"grad", "a", "b?"},
    .internal = true,
    .infer =
        [](Infer& infer, const GateAttrs&) {
          for (size_t i = 1; i < infer.inputs.size(); ++i)
            infer.output(infer[1].sizes(), infer[1].dtype());
        },
    .reference = gate_backward_reference,
    .gradient = Gradient::by_reference,
});

void register_gated(OpRegistry& registry) {
  registry.add(gate_op);
  registry.add(gate_backward_op);
}

Tensor glu(const Tensor& input, int64_t dim) {
  return called_as("glu", [&] { return apply(gate_op, {input}, {Gate::glu, dim}); });
}

Tensor swiglu(const Tensor& input, int64_t dim) {
  return called_as("swiglu", [&] { return apply(gate_op, {input}, {Gate::swiglu, dim}); });
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  return called_as("swiglu", [&] { return apply(gate_op, {gate, up}, {Gate::swiglu}); });
}

Tensor prelu(const Tensor& self, const Tensor& weight) {
  if (is_autocast_enabled()) return autocast_call("prelu", Autocast::lower, prelu, self, weight);
  check(self.dtype() == weight.dtype(), "prelu: expected a weight of the input's dtype ",
        self.dtype(), ", got ", weight.dtype());
  check(weight.dim() <= 1, "prelu: expected a weight of at most one dim, got shape ",
        weight.sizes());
  const auto apply_to = [&](const Tensor& slopes) {
    return called_as("prelu", [&] {
      return apply(pointwise_op<functors::ParametricRelu>(), {self, slopes});
    });
  };
  if (weight.numel() == 1) return apply_to(reshape(weight, Shape::filled(self.dim(), 1)));
  check(self.dim() > 0, "prelu: a number has no channels for ", weight.numel(), " weights");
  const int64_t channels = self.dim() == 1 ? 1 : self.size(1);
  check(weight.numel() == channels, "prelu: expected one weight or one for each of ", channels,
        " channels, got ", weight.numel());
  Shape along = Shape::filled(self.dim(), 1);
  along[1] = channels;
  return apply_to(reshape(weight, along));
}

}  // namespace tensora

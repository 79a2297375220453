#include "tensora/ops/rnn/rnn_cell.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/split.h"

namespace tensora {
namespace {

Tensors lstm_step_reference(Args in, const StepAttrs& attrs) {
  const std::vector<Tensor> sums = chunk(*in[0], 4, 1);
  const Tensor i = sigmoid(sums[0]), f = sigmoid(sums[1]), g = tanh(sums[2]), o = sigmoid(sums[3]);
  const Tensor cell = contiguous(f * *in[1] + i * g), hidden = contiguous(o * tanh(cell));
  if (!attrs.keep) return Tensors{hidden, cell};
  Tensors result{hidden, cell};
  result.push_back(cat({i, f, g, o}, 1));
  return result;
}

Tensors lstm_step_backward_reference(Args in, const NoAttrs&) {
  const std::vector<Tensor> values = chunk(*in[2], 4, 1);
  const Tensor &i = values[0], &f = values[1], &g = values[2], &o = values[3];
  const Tensor &before = *in[3], &after = *in[4];
  const Tensor dh = in[0]->defined() ? *in[0] : zeros_like(before);
  const Tensor t = tanh(after);
  Tensor d = dh * o * (1 - t * t);
  if (in[1]->defined()) d = d + *in[1];
  const Tensor gates = cat(
      {d * g * i * (1 - i), d * before * f * (1 - f), d * i * (1 - g * g), dh * t * o * (1 - o)},
      1);
  return Tensors{gates, contiguous(d * f)};
}

Tensors gru_step_reference(Args in, const StepAttrs& attrs) {
  const std::vector<Tensor> x = chunk(*in[0], 3, 1), h = chunk(*in[1], 3, 1);
  const Tensor r = sigmoid(x[0] + h[0]), z = sigmoid(x[1] + h[1]), n = tanh(x[2] + r * h[2]);
  const Tensor hidden = contiguous(n + z * (*in[2] - n));
  if (!attrs.keep) return Tensors{hidden};
  return Tensors{hidden, cat({r, z, n, h[2]}, 1)};
}

Tensors gru_step_backward_reference(Args in, const NoAttrs&) {
  const std::vector<Tensor> values = chunk(*in[1], 4, 1);
  const Tensor &r = values[0], &z = values[1], &n = values[2], &hn = values[3];
  const Tensor &dh = *in[0], &h = *in[2];
  const Tensor dn = dh * (1 - z) * (1 - n * n);
  const Tensor dr = dn * hn * r * (1 - r), dz = dh * (h - n) * z * (1 - z);
  Tensors result{cat({dr, dz, dn}, 1), cat({dr, dz, dn * r}, 1)};
  result.push_back(contiguous(dh * z));
  return result;
}

void lstm_step_vjp(Vjp& vjp, const StepAttrs& attrs) {
  check(attrs.keep, "lstm_step: the gradient needs keep");
  const Tensor values = vjp.output(2);
  Tensors grads = apply_all(lstm_step_backward_op,
                            {vjp.grad(0), vjp.grad(1), values, vjp.input(1), vjp.output(1)});
  if (vjp.grad(2).defined()) grads[0] = grads[0] + lstm_values_vjp(vjp.grad(2), values);
  for (size_t i : {0u, 1u})
    if (vjp.needs(i)) vjp.set(i, grads[i]);
}

void gru_step_vjp(Vjp& vjp, const StepAttrs& attrs) {
  check(attrs.keep, "gru_step: the gradient needs keep");
  const Tensor values = vjp.output(1), hx = vjp.input(2);
  const Tensor dh = vjp.grad(0).defined() ? vjp.grad(0) : zeros_like(hx);
  Tensors grads = apply_all(gru_step_backward_op, {dh, values, hx});
  if (vjp.grad(1).defined()) {
    const std::array<Tensor, 2> more = gru_values_vjp(vjp.grad(1), values);
    for (size_t i : {0u, 1u}) grads[i] = grads[i] + more[i];
  }
  for (size_t i : {0u, 1u, 2u})
    if (vjp.needs(i)) vjp.set(i, grads[i]);
}

}  // namespace

constinit OpDef<StepAttrs> lstm_step_op = define(Op<StepAttrs>{
    .name = "lstm_step",
    .inputs = {"gates", "cx"},
    .internal = true,
    .infer =
        [](Infer& infer, const StepAttrs& attrs) {
          infer.output(infer[1].sizes(), infer[0].dtype());
          infer.output(infer[1].sizes(), infer[0].dtype());
          if (attrs.keep) infer.output(infer[0].sizes(), infer[0].dtype());
        },
    .reference = lstm_step_reference,
    .vjp = lstm_step_vjp,
    .saves = Saves{}.rest(in(1) | out(1) | out(2)),
});

constinit OpDef<NoAttrs> lstm_step_backward_op = define(Op<NoAttrs>{
    .name = "lstm_step_backward",
    .inputs = {"grad_h?", "grad_c?", "values", "cx", "cy"},
    .internal = true,
    .infer =
        [](Infer& infer, const NoAttrs&) {
          infer.output(infer[2].sizes(), infer[2].dtype());
          infer.output(infer[3].sizes(), infer[3].dtype());
        },
    .reference = lstm_step_backward_reference,
    .gradient = Gradient::by_reference,
});

constinit OpDef<StepAttrs> gru_step_op = define(Op<StepAttrs>{
    .name = "gru_step",
    .inputs = {"gates_x", "gates_h", "hx"},
    .internal = true,
    .infer =
        [](Infer& infer, const StepAttrs& attrs) {
          const Shape& sizes = infer[2].sizes();
          infer.output(sizes, infer[0].dtype());
          if (attrs.keep) infer.output({sizes[0], 4 * sizes[1]}, infer[0].dtype());
        },
    .reference = gru_step_reference,
    .vjp = gru_step_vjp,
    .saves = Saves{}.rest(in(2) | out(1)),
});

constinit OpDef<NoAttrs> gru_step_backward_op = define(Op<NoAttrs>{
    .name = "gru_step_backward",
    .inputs = {"grad_h", "values", "hx"},
    .internal = true,
    .infer =
        [](Infer& infer, const NoAttrs&) {
          const Shape& sizes = infer[2].sizes();
          infer.output({sizes[0], 3 * sizes[1]}, infer[0].dtype());
          infer.output({sizes[0], 3 * sizes[1]}, infer[0].dtype());
          infer.output(sizes, infer[0].dtype());
        },
    .reference = gru_step_backward_reference,
    .gradient = Gradient::by_reference,
});

void register_rnn_cell(OpRegistry& registry) {
  registry.add(lstm_step_op);
  registry.add(lstm_step_backward_op);
  registry.add(gru_step_op);
  registry.add(gru_step_backward_op);
}

Tensor lstm_values_vjp(const Tensor& grad_values, const Tensor& values) {
  const std::vector<Tensor> a = chunk(values, 4, 1), d = chunk(grad_values, 4, 1);
  return cat({d[0] * a[0] * (1 - a[0]), d[1] * a[1] * (1 - a[1]), d[2] * (1 - a[2] * a[2]),
              d[3] * a[3] * (1 - a[3])},
             1);
}

std::array<Tensor, 2> gru_values_vjp(const Tensor& grad_values, const Tensor& values) {
  const std::vector<Tensor> a = chunk(values, 4, 1), d = chunk(grad_values, 4, 1);
  const Tensor &r = a[0], &z = a[1], &n = a[2], &hn = a[3];
  const Tensor dn = d[2] * (1 - n * n), dr = (d[0] + dn * hn) * r * (1 - r);
  const Tensor dz = d[1] * z * (1 - z);
  return {cat({dr, dz, dn}, 1), cat({dr, dz, d[3] + dn * r}, 1)};
}

}  // namespace tensora

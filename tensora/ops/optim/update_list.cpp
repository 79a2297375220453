#include "tensora/dispatch/op.h"
#include "tensora/ops.h"
#include "tensora/ops/optim/list_reference.h"
#include "tensora/ops/optim/multi_tensor_op.h"

namespace tensora {
namespace {

int states_of(const UpdateListAttrs& a) {
  switch (a.rule) {
    case UpdateRule::rmsprop:
      return 1 + a.centered + (a.momentum > 0);
    case UpdateRule::adagrad:
    case UpdateRule::lion:
      return 1;
    default:
      return 2;
  }
}

// One parameter's step, by rule; each changes the states and returns the parameter.
struct Definition {
  const UpdateListAttrs& a;
  const SteppedNumbers& n;
  Stepped& s;

  Tensor narrow(const Tensor& number) const { return to(number, s.param.dtype()); }
  Tensor decayed_grad() const { return a.decoupled ? s.grad : s.grad + s.param * a.weight_decay; }
  Tensor kept() const {
    return a.decoupled ? s.param * narrow(1 - n.lr * a.weight_decay) : s.param;
  }
  void mean(int k, const Tensor& value, double beta) const {
    s.state[k] = s.state[k] * beta + value * (1 - beta);
  }

  Tensor rmsprop() const {
    const Tensor g = decayed_grad();
    mean(0, g * g, a.beta2);
    Tensor spread = s.state[0];
    if (a.centered) {
      mean(1, g, a.beta2);
      spread = spread - s.state[1] * s.state[1];
    }
    Tensor moved = g / (sqrt(spread) + a.eps);
    if (a.momentum > 0) {
      Tensor& velocity = s.state[1 + a.centered];
      moved = velocity = velocity * a.momentum + moved;
    }
    return s.param - moved * narrow(n.lr);
  }
  Tensor adagrad() const {
    const Tensor g = decayed_grad();
    s.state[0] = s.state[0] + g * g;
    return s.param - g * narrow(n.lr / ((n.step - 1) * a.decay + 1)) / (sqrt(s.state[0]) + a.eps);
  }
  Tensor adadelta() const {
    const Tensor g = decayed_grad();
    mean(0, g * g, a.beta2);
    const Tensor delta = sqrt(s.state[1] + a.eps) / sqrt(s.state[0] + a.eps) * g;
    mean(1, delta * delta, a.beta2);
    return s.param - delta * narrow(n.lr);
  }
  Tensor adamax() const {
    const Tensor g = decayed_grad();
    mean(0, g, a.beta1);
    s.state[1] = maximum(s.state[1] * a.beta2, abs(g) + a.eps);
    return s.param - s.state[0] * narrow(n.lr / n.correction(a.beta1)) / s.state[1];
  }
  Tensor momentum_at(const Tensor& step) const {
    return (1 - pow(full_like(step, 0.96), step * a.decay) * 0.5) * a.beta1;
  }
  Tensor nadam() const {
    const Tensor g = decayed_grad(), now = momentum_at(n.step), next = momentum_at(n.step + 1);
    mean(0, g, a.beta1);
    mean(1, g * g, a.beta2);
    const Tensor root = sqrt(s.state[1]) / narrow(sqrt(n.correction(a.beta2))) + a.eps;
    return kept() - (g * narrow(n.lr * (1 - now) / (1 - n.product)) +
                     s.state[0] * narrow(n.lr * next / (1 - n.product * next))) /
                        root;
  }
  Tensor radam() const {
    const Tensor g = decayed_grad();
    mean(0, g, a.beta1);
    mean(1, g * g, a.beta2);
    const Tensor left = n.correction(a.beta2), size = n.lr / n.correction(a.beta1);
    const double longest = 2 / (1 - a.beta2) - 1;
    const Tensor length = longest - n.step * 2 * (1 - left) / left;
    const Tensor ratio =
        (length - 4) * (length - 2) * longest / (length * ((longest - 4) * (longest - 2)));
    const Tensor adapted =
        narrow(size * sqrt(left) * sqrt(clamp_min(ratio, 0))) / (sqrt(s.state[1]) + a.eps);
    return kept() - s.state[0] * where(length > 5, adapted, narrow(size));
  }
  Tensor lion() const {
    const Tensor direction = sign(s.state[0] * a.beta1 + s.grad * (1 - a.beta1));
    mean(0, s.grad, a.beta2);
    return s.param * narrow(1 - n.lr * a.weight_decay) - direction * narrow(n.lr);
  }
  Tensor step() const {
    switch (a.rule) {
      case UpdateRule::rmsprop:
        return rmsprop();
      case UpdateRule::adagrad:
        return adagrad();
      case UpdateRule::adadelta:
        return adadelta();
      case UpdateRule::adamax:
        return adamax();
      case UpdateRule::nadam:
        return nadam();
      case UpdateRule::radam:
        return radam();
      case UpdateRule::lion:
        return lion();
    }
    return {};
  }
};

Tensors reference(Args in, const UpdateListAttrs& a) {
  const ListLayout& layout = a.layout;
  Tensors out(static_cast<size_t>(layout.outputs()));
  for (int64_t i = 0; i < layout.count; ++i) {
    Stepped s(in, layout, i, a.maximize);
    const SteppedNumbers n(in, layout, s.param, static_cast<double>(a.step), a.lr, a.product);
    s.store(out, in, layout, i, Definition{a, n, s}.step());
  }
  return out;
}

}  // namespace

constinit OpDef<UpdateListAttrs> update_list_op = define(Op<UpdateListAttrs>{
    .name = "update_list",
    .inputs = {"tensors..."},
    .infer =
        [](Infer& infer, const UpdateListAttrs& attrs) {
          infer.check(attrs.layout.states == states_of(attrs), "expected ", states_of(attrs),
                      " states, got ", attrs.layout.states);
          infer.check(attrs.step >= 1, "steps are counted from 1, got ", attrs.step);
          infer_list(infer, attrs.layout);
        },
    .reference = reference,
    .gradient = Gradient::not_differentiable,
});

void register_update_list(OpRegistry& registry) { registry.add(update_list_op); }

}  // namespace tensora

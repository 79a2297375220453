#pragma once

// Internal header: one element of an optimizer's step, for the host and for kernels. A rule is made
// of the attributes and of the numbers that may be in device memory; then it is called for every
// element with the parameter, its gradient and its states, which it changes. C is float or double.

#include "tensora/base/math.h"
#include "tensora/ops/optim/multi_tensor_op.h"

namespace tensora {

/// What a rule is made of beside the attributes.
struct StepNumbers {
  double step, lr, product;
};
template <class Attrs>
StepNumbers numbers_of(const Attrs& a) {
  StepNumbers numbers{1, a.lr, 1};
  if constexpr (requires { a.step; }) numbers.step = static_cast<double>(a.step);
  if constexpr (requires { a.product; }) numbers.product = a.product;
  return numbers;
}

/// Adam and AdamW.
template <class C>
struct AdamRule {
  static constexpr int kUsualStates = 2;
  C beta1, beta2, eps, coupled_decay, kept, sign, step_size, inverse_root_correction;
  bool amsgrad;

  TENSORA_HD static AdamRule make(const AdamListAttrs& a, const StepNumbers& n) {
    return {C(a.beta1),
            C(a.beta2),
            C(a.eps),
            C(a.decoupled ? 0 : a.weight_decay),
            C(a.decoupled ? 1 - n.lr * a.weight_decay : 1),
            C(a.maximize ? -1 : 1),
            C(n.lr / (1 - math::pow(a.beta1, n.step))),
            C(1 / math::sqrt(1 - math::pow(a.beta2, n.step))),
            a.amsgrad};
  }
  TENSORA_HD C operator()(C param, C grad, C (&state)[3]) const {
    const C g = sign * grad + coupled_decay * param;
    const C m = state[0] + (C(1) - beta1) * (g - state[0]);
    const C v = beta2 * state[1] + (C(1) - beta2) * g * g;
    const C top = v > state[2] ? v : state[2];
    const C root = math::sqrt(amsgrad ? top : v) * inverse_root_correction + eps;
    state[0] = m;
    state[1] = v;
    state[2] = top;
    return kept * param - step_size * m / root;
  }
};

/// Stochastic gradient descent; state 0 is the momentum, where there is one.
template <class C>
struct SgdRule {
  static constexpr int kUsualStates = 1;
  C lr, momentum, fresh, weight_decay, sign;  // fresh: 1 - dampening
  bool nesterov, first;

  TENSORA_HD static SgdRule make(const SgdListAttrs& a, const StepNumbers& n) {
    return {
        C(n.lr),    C(a.momentum), C(1 - a.dampening), C(a.weight_decay), C(a.maximize ? -1 : 1),
        a.nesterov, a.first};
  }
  TENSORA_HD C operator()(C param, C grad, C (&state)[3]) const {
    const C g = sign * grad + weight_decay * param;
    if (momentum == C(0)) return param - lr * g;
    const C velocity = first ? g : momentum * state[0] + fresh * g;
    state[0] = velocity;
    return param - lr * (nesterov ? g + momentum * velocity : velocity);
  }
};

/// States: the mean of squares; if centered, the mean; with momentum, the velocity.
template <class C>
struct RmspropRule {
  static constexpr int kUsualStates = 1;
  C lr, alpha, eps, weight_decay, momentum, sign;
  bool centered;

  TENSORA_HD static RmspropRule make(const UpdateListAttrs& a, const StepNumbers& n) {
    return {C(n.lr),           C(a.beta2),    C(a.eps),
            C(a.weight_decay), C(a.momentum), C(a.maximize ? -1 : 1),
            a.centered};
  }
  TENSORA_HD C operator()(C param, C grad, C (&state)[3]) const {
    const C g = sign * grad + weight_decay * param;
    const C square = alpha * state[0] + (C(1) - alpha) * g * g;
    const C mean = centered ? state[1] + (C(1) - alpha) * (g - state[1]) : C(0);
    const C moved = g / (math::sqrt(square - mean * mean) + eps);
    const C velocity = momentum * (centered ? state[2] : state[1]) + moved;
    const bool moves = momentum > C(0);
    state[0] = square;
    if (centered) {
      state[1] = mean;
      state[2] = velocity;
    } else {
      state[1] = velocity;
    }
    return param - lr * (moves ? velocity : moved);
  }
};

/// State: the sum of squares.
template <class C>
struct AdagradRule {
  static constexpr int kUsualStates = 1;
  C lr, eps, weight_decay, sign;

  TENSORA_HD static AdagradRule make(const UpdateListAttrs& a, const StepNumbers& n) {
    return {C(n.lr / (1 + (n.step - 1) * a.decay)), C(a.eps), C(a.weight_decay),
            C(a.maximize ? -1 : 1)};
  }
  TENSORA_HD C operator()(C param, C grad, C (&state)[3]) const {
    const C g = sign * grad + weight_decay * param;
    state[0] += g * g;
    return param - lr * g / (math::sqrt(state[0]) + eps);
  }
};

/// States: the means of the squares of gradients and of steps.
template <class C>
struct AdadeltaRule {
  static constexpr int kUsualStates = 2;
  C lr, rho, eps, weight_decay, sign;

  TENSORA_HD static AdadeltaRule make(const UpdateListAttrs& a, const StepNumbers& n) {
    return {C(n.lr), C(a.beta2), C(a.eps), C(a.weight_decay), C(a.maximize ? -1 : 1)};
  }
  TENSORA_HD C operator()(C param, C grad, C (&state)[3]) const {
    const C g = sign * grad + weight_decay * param;
    state[0] = rho * state[0] + (C(1) - rho) * g * g;
    const C delta = math::sqrt(state[1] + eps) / math::sqrt(state[0] + eps) * g;
    state[1] = rho * state[1] + (C(1) - rho) * delta * delta;
    return param - lr * delta;
  }
};

/// States: the mean and the running maximum.
template <class C>
struct AdamaxRule {
  static constexpr int kUsualStates = 2;
  C lr, beta1, beta2, eps, weight_decay, sign;

  TENSORA_HD static AdamaxRule make(const UpdateListAttrs& a, const StepNumbers& n) {
    return {C(n.lr / (1 - math::pow(a.beta1, n.step))),
            C(a.beta1),
            C(a.beta2),
            C(a.eps),
            C(a.weight_decay),
            C(a.maximize ? -1 : 1)};
  }
  TENSORA_HD C operator()(C param, C grad, C (&state)[3]) const {
    const C g = sign * grad + weight_decay * param;
    state[0] += (C(1) - beta1) * (g - state[0]);
    const C faded = beta2 * state[1], fresh = math::abs(g) + eps;
    state[1] = fresh > faded || fresh != fresh ? fresh : faded;  // NaN stays
    return param - lr * state[0] / state[1];
  }
};

/// The momentum of a step of NAdam.
TENSORA_HD inline double nadam_momentum(double beta1, double decay, double step) {
  return beta1 * (1 - 0.5 * math::pow(0.96, step * decay));
}

/// States: the means of gradients and of their squares; `product` is that of all momenta so far.
template <class C>
struct NadamRule {
  static constexpr int kUsualStates = 2;
  C beta1, beta2, eps, coupled_decay, kept, sign, of_grad, of_mean, inverse_root_correction;

  TENSORA_HD static NadamRule make(const UpdateListAttrs& a, const StepNumbers& n) {
    const double now = nadam_momentum(a.beta1, a.decay, n.step);
    const double next = nadam_momentum(a.beta1, a.decay, n.step + 1);
    return {C(a.beta1),
            C(a.beta2),
            C(a.eps),
            C(a.decoupled ? 0 : a.weight_decay),
            C(a.decoupled ? 1 - n.lr * a.weight_decay : 1),
            C(a.maximize ? -1 : 1),
            C(n.lr * (1 - now) / (1 - n.product)),
            C(n.lr * next / (1 - n.product * next)),
            C(1 / math::sqrt(1 - math::pow(a.beta2, n.step)))};
  }
  TENSORA_HD C operator()(C param, C grad, C (&state)[3]) const {
    const C g = sign * grad + coupled_decay * param;
    state[0] += (C(1) - beta1) * (g - state[0]);
    state[1] = beta2 * state[1] + (C(1) - beta2) * g * g;
    const C root = math::sqrt(state[1]) * inverse_root_correction + eps;
    return kept * param - (of_grad * g + of_mean * state[0]) / root;
  }
};

/// States: the means of gradients and of their squares, which count once they are reliable.
template <class C>
struct RadamRule {
  static constexpr int kUsualStates = 2;
  C beta1, beta2, eps, coupled_decay, kept, sign, step_size, rectified_size;
  bool rectified;

  TENSORA_HD static RadamRule make(const UpdateListAttrs& a, const StepNumbers& n) {
    const double power = math::pow(a.beta2, n.step);
    const double longest = 2 / (1 - a.beta2) - 1;
    const double length = longest - 2 * n.step * power / (1 - power);
    const double step_size = n.lr / (1 - math::pow(a.beta1, n.step));
    const bool rectified = length > 5;
    const double ratio =
        (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length);
    return {C(a.beta1),
            C(a.beta2),
            C(a.eps),
            C(a.decoupled ? 0 : a.weight_decay),
            C(a.decoupled ? 1 - n.lr * a.weight_decay : 1),
            C(a.maximize ? -1 : 1),
            C(step_size),
            C(rectified ? step_size * math::sqrt(1 - power) * math::sqrt(ratio) : 0),
            rectified};
  }
  TENSORA_HD C operator()(C param, C grad, C (&state)[3]) const {
    const C g = sign * grad + coupled_decay * param;
    state[0] += (C(1) - beta1) * (g - state[0]);
    state[1] = beta2 * state[1] + (C(1) - beta2) * g * g;
    const C adapted = rectified_size / (math::sqrt(state[1]) + eps);
    return kept * param - state[0] * (rectified ? adapted : step_size);
  }
};

/// State: the mean. The step has the size of the learning rate in every element.
template <class C>
struct LionRule {
  static constexpr int kUsualStates = 1;
  C lr, beta1, beta2, kept, sign;

  TENSORA_HD static LionRule make(const UpdateListAttrs& a, const StepNumbers& n) {
    return {C(n.lr), C(a.beta1), C(a.beta2), C(1 - n.lr * a.weight_decay), C(a.maximize ? -1 : 1)};
  }
  TENSORA_HD C operator()(C param, C grad, C (&state)[3]) const {
    const C g = sign * grad;
    const C blend = beta1 * state[0] + (C(1) - beta1) * g;
    state[0] = beta2 * state[0] + (C(1) - beta2) * g;
    const C direction = C(blend > C(0)) - C(blend < C(0));
    return kept * param - lr * (blend == blend ? direction : blend);
  }
};

/// Calls `body` with the rule as a template.
template <class Body>
void visit_rule(UpdateRule rule, Body&& body) {
  switch (rule) {
    case UpdateRule::rmsprop:
      return body.template operator()<RmspropRule>();
    case UpdateRule::adagrad:
      return body.template operator()<AdagradRule>();
    case UpdateRule::adadelta:
      return body.template operator()<AdadeltaRule>();
    case UpdateRule::adamax:
      return body.template operator()<AdamaxRule>();
    case UpdateRule::nadam:
      return body.template operator()<NadamRule>();
    case UpdateRule::radam:
      return body.template operator()<RadamRule>();
    case UpdateRule::lion:
      return body.template operator()<LionRule>();
  }
}

}  // namespace tensora

#pragma once

// Internal header: one element of an optimizer's step, for the host and for kernels.

#include "tensora/base/math.h"

namespace tensora {

/// Adam and AdamW. C is float or double.
template <class C>
struct AdamRule {
  C beta1, beta2, lr, eps, coupled_decay, kept, sign;
  C step_size, inverse_root_correction;  // follow from the step's number
  bool amsgrad;

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
  C lr, momentum, fresh, weight_decay, sign;  // fresh: 1 - dampening
  bool nesterov, first;

  TENSORA_HD C operator()(C param, C grad, C (&state)[3]) const {
    const C g = sign * grad + weight_decay * param;
    if (momentum == C(0)) return param - lr * g;
    const C velocity = first ? g : momentum * state[0] + fresh * g;
    state[0] = velocity;
    return param - lr * (nesterov ? g + momentum * velocity : velocity);
  }
};

}  // namespace tensora

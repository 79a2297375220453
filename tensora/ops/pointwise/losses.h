#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

// One element of the losses of ops/loss, whose functions reduce them. Targets have gradients too.
// `no_ulp` says why a loss has no bound in ULP.

inline constexpr auto kTermsCancel = "the terms overflow before the result, or cancel";

struct SquaredError : Binary {
  static constexpr auto name = "squared_error";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr double ulp = 2;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V input, V target) const {
    const V distance = input - target;
    return distance * distance;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * (s.a - s.b) * lit<V>(2);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * (s.b - s.a) * lit<V>(2);
  }
};

struct AbsoluteError : Binary {
  static constexpr auto name = "absolute_error";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V input, V target) const {
    return abs(input - target);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * sign(s.a - s.b);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * sign(s.b - s.a);
  }
};

/// A parabola below `beta`, which is above 0, and a line beyond.
struct SmoothL1 : Binary {
  static constexpr auto name = "smooth_l1";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr double ulp = 3;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  Scalar beta = 1;
  template <class V>
  constexpr V forward(V input, V target) const {
    const V distance = abs(input - target);
    const V near = distance * distance * lit<V>(0.5) / lit<V>(beta);
    return select(distance < lit<V>(beta), near, distance - lit<V>(beta) * lit<V>(0.5));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * clamp((s.a - s.b) / lit<V>(beta), lit<V>(-1), lit<V>(1));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * clamp((s.b - s.a) / lit<V>(beta), lit<V>(-1), lit<V>(1));
  }
};

struct Huber : Binary {
  static constexpr auto name = "huber";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr double ulp = 3;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  Scalar delta = 1;
  template <class V>
  constexpr V forward(V input, V target) const {
    const V distance = abs(input - target);
    const V near = distance * distance * lit<V>(0.5);
    const V far = (distance - lit<V>(delta) * lit<V>(0.5)) * lit<V>(delta);
    return select(distance <= lit<V>(delta), near, far);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * clamp((s.a - s.b) / lit<V>(delta), lit<V>(-1), lit<V>(1)) * lit<V>(delta);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * clamp((s.b - s.a) / lit<V>(delta), lit<V>(-1), lit<V>(1)) * lit<V>(delta);
  }
};

/// Of a probability, `input`; the logarithms end at -100, as PyTorch's do.
struct BinaryEntropy : Ternary {
  static constexpr auto name = "binary_entropy";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr double low = 0, high = 1;
  static constexpr auto no_ulp = kTermsCancel;
  static constexpr unsigned saves_a = kA | kB | kC, saves_b = kA | kC, saves_c = kA | kB;
  template <class V>
  static constexpr V terms(V input, V target) {
    const V yes = maximum(log(input), lit<V>(-100)), no = maximum(log1p(-input), lit<V>(-100));
    return (target - lit<V>(1)) * no - target * yes;
  }
  template <class V>
  constexpr V forward(V input, V target, V weight) const {
    return terms(input, target) * weight;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V spread = maximum((lit<V>(1) - s.a) * s.a, lit<V>(1e-12));
    return s.g * s.c * (s.a - s.b) / spread;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    const V yes = maximum(log(s.a), lit<V>(-100)), no = maximum(log1p(-s.a), lit<V>(-100));
    return s.g * s.c * (no - yes);
  }
  template <class V>
  constexpr V vjp_c(const Saved<V>& s) const {
    return s.g * terms(s.a, s.b);
  }
};

/// Of a logit: (1 - target) input + (1 + (pos_weight - 1) target) log(1 + exp(-input)).
struct BinaryEntropyOfLogit : Ternary {
  static constexpr auto name = "binary_entropy_of_logit";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr auto no_ulp = kTermsCancel;
  static constexpr unsigned saves_a = kA | kB | kC, saves_b = kA | kC, saves_c = kA | kB;
  /// log(1 + exp(-x))
  template <class V>
  static constexpr V softplus_of_minus(V x) {
    return log1p(exp(-abs(x))) - minimum(x, lit<V>(0));
  }
  template <class V>
  constexpr V forward(V input, V target, V pos_weight) const {
    const V factor = (pos_weight - lit<V>(1)) * target + lit<V>(1);
    return (lit<V>(1) - target) * input + factor * softplus_of_minus(input);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V factor = (s.c - lit<V>(1)) * s.b + lit<V>(1);
    return s.g * (lit<V>(1) - s.b - factor * sigmoid(-s.a));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * ((s.c - lit<V>(1)) * softplus_of_minus(s.a) - s.a);
  }
  template <class V>
  constexpr V vjp_c(const Saved<V>& s) const {
    return s.g * s.b * softplus_of_minus(s.a);
  }
};

/// Of a logarithm, `input`, and a probability.
struct Divergence : Binary {
  static constexpr auto name = "divergence";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr auto no_ulp = kTermsCancel;
  static constexpr unsigned saves_a = kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V input, V target) const {
    return xlogy(target, target) - target * input;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return -s.g * s.b;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * (log(s.b) + lit<V>(1) - s.a);
  }
};

/// Of two logarithms.
struct DivergenceOfLogs : Binary {
  static constexpr auto name = "divergence_of_logs";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr auto no_ulp = kTermsCancel;
  static constexpr unsigned saves_a = kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V input, V target) const {
    return exp(target) * (target - input);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return -s.g * exp(s.b);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * exp(s.b) * (s.b - s.a + lit<V>(1));
  }
};

struct PoissonNll : Binary {
  static constexpr auto name = "poisson_nll";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr auto no_ulp = kTermsCancel;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA;
  Scalar eps = 1e-8;
  template <class V>
  constexpr V forward(V input, V target) const {
    return input - target * log(input + lit<V>(eps));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * (lit<V>(1) - s.b / (s.a + lit<V>(eps)));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return -s.g * log(s.a + lit<V>(eps));
  }
};

/// With the logarithm of the rate as `input`.
struct PoissonNllOfLog : Binary {
  static constexpr auto name = "poisson_nll_of_log";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr auto no_ulp = kTermsCancel;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA;
  template <class V>
  constexpr V forward(V input, V target) const {
    return exp(input) - target * input;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * (exp(s.a) - s.b);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return -s.g * s.a;
  }
};

/// The gradient passes a variance below `eps` as if it were `eps`, as PyTorch's does.
struct GaussianNll : Ternary {
  static constexpr auto name = "gaussian_nll";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr auto no_ulp = kTermsCancel;
  static constexpr unsigned saves_a = kA | kB | kC, saves_b = kA | kB | kC, saves_c = kA | kB | kC;
  Scalar eps = 1e-6;
  template <class V>
  constexpr V forward(V input, V target, V var) const {
    const V distance = input - target, spread = maximum(var, lit<V>(eps));
    return (log(spread) + distance * distance / spread) * lit<V>(0.5);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * (s.a - s.b) / maximum(s.c, lit<V>(eps));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * (s.b - s.a) / maximum(s.c, lit<V>(eps));
  }
  template <class V>
  constexpr V vjp_c(const Saved<V>& s) const {
    const V distance = s.a - s.b, spread = maximum(s.c, lit<V>(eps));
    return s.g * (lit<V>(1) - distance * distance / spread) / spread * lit<V>(0.5);
  }
};

struct HingeEmbedding : Binary {
  static constexpr auto name = "hinge_embedding";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr double ulp = 1;
  static constexpr bool ulp_of_operands = true;
  static constexpr unsigned saves_a = kA | kB;
  Scalar margin = 1;
  template <class V>
  constexpr V forward(V input, V target) const {
    const V apart = maximum(lit<V>(margin) - input, lit<V>(0));
    return select(target != lit<V>(1), apart, lit<V>(0)) +
           select(target != lit<V>(-1), input, lit<V>(0));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V inside = select((s.b != lit<V>(1)) & (s.a <= lit<V>(margin)), s.g, lit<V>(0));
    return select(s.b != lit<V>(-1), s.g, lit<V>(0)) - inside;
  }
};

struct MarginRanking : Ternary {
  static constexpr auto name = "margin_ranking";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr double ulp = 4;  // of the product, with which the margin may cancel
  static constexpr bool ulp_of_operands = true;
  static constexpr unsigned saves_a = kA | kB | kC, saves_b = kA | kB | kC, saves_c = kA | kB | kC;
  Scalar margin = 0;
  template <class V>
  constexpr V forward(V input1, V input2, V target) const {
    return maximum(lit<V>(margin) - target * (input1 - input2), lit<V>(0));
  }
  template <class V>
  constexpr V counted(const Saved<V>& s) const {
    return select(s.c * (s.a - s.b) > lit<V>(margin), lit<V>(0), s.g);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return -counted(s) * s.c;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return counted(s) * s.c;
  }
  template <class V>
  constexpr V vjp_c(const Saved<V>& s) const {
    return counted(s) * (s.b - s.a);
  }
};

struct SoftMargin : Binary {
  static constexpr auto name = "soft_margin";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr double ulp = 16;
  static constexpr bool ulp_of_operands = true;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V input, V target) const {
    const V agreement = target * input;
    return log1p(exp(-abs(agreement))) - minimum(agreement, lit<V>(0));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return -s.g * s.b * sigmoid(-(s.b * s.a));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return -s.g * s.a * sigmoid(-(s.b * s.a));
  }
};

}  // namespace tensora::functors

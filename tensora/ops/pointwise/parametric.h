#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

/// leaky_relu whose slope is an operand.
struct ParametricRelu : Binary {
  static constexpr auto name = "parametric_relu";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA;
  template <class V>
  constexpr V forward(V self, V weight) const {
    return select(self > lit<V>(0), self, weight * self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.a > lit<V>(0), s.g, s.b * s.g);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return select(s.a > lit<V>(0), lit<V>(0), s.a * s.g);
  }
};

}  // namespace tensora::functors

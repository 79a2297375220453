#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

struct Exp : Unary {
  static constexpr auto name = "exp";
  static constexpr auto types = Types::floating;
  static constexpr auto saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return exp(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * s.y;
  }
};

struct Neg : Unary {
  static constexpr auto name = "neg";
  static constexpr auto types = Types::number;
  static constexpr auto direct = true;
  template <class V>
  constexpr V forward(V self) const {
    return -self;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return -s.g;
  }
};

struct Relu : Unary {
  static constexpr auto name = "relu";
  static constexpr auto types = Types::number;
  static constexpr auto saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return select(self < lit<V>(0), lit<V>(0), self);  // NaN passes
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.y > lit<V>(0), s.g, lit<V>(0));
  }
};

struct Tanh : Unary {
  static constexpr auto name = "tanh";
  static constexpr auto types = Types::floating;
  static constexpr auto saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return tanh(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * (lit<V>(1) - s.y * s.y);
  }
};

}  // namespace tensora::functors

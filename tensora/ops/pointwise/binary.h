#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

struct Add : Binary {
  static constexpr auto name = "add";
  static constexpr auto direct = true;
  Scalar alpha = 1;
  template <class V>
  constexpr V forward(V self, V other) const {
    return self + lit<V>(alpha) * other;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return scaled(s.g, alpha);
  }
};

struct Sub : Binary {
  static constexpr auto name = "sub";
  static constexpr auto types = Types::number;
  static constexpr auto direct = true;
  Scalar alpha = 1;
  template <class V>
  constexpr V forward(V self, V other) const {
    return self - lit<V>(alpha) * other;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return -scaled(s.g, alpha);
  }
};

struct Mul : Binary {
  static constexpr auto name = "mul";
  static constexpr auto saves_a = kB, saves_b = kA;
  template <class V>
  constexpr V forward(V self, V other) const {
    return self * other;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * s.b;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * s.a;
  }
};

struct Div : Binary {
  static constexpr auto name = "div";
  static constexpr auto types = Types::floating;
  static constexpr auto saves_a = kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    return self / other;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g / s.b;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return -s.g * s.a / (s.b * s.b);
  }
};

}  // namespace tensora::functors

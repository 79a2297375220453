#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

/// Functions that are flat almost everywhere: their gradient is zero.
struct Step : Unary {
  static constexpr auto types = Types::number;
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return zero_like(s.g);
  }
};

struct Floor : Step {
  static constexpr auto name = "floor";
  template <class V>
  constexpr V forward(V self) const {
    return floor(self);
  }
};

struct Ceil : Step {
  static constexpr auto name = "ceil";
  template <class V>
  constexpr V forward(V self) const {
    return ceil(self);
  }
};

struct Trunc : Step {
  static constexpr auto name = "trunc";
  template <class V>
  constexpr V forward(V self) const {
    return trunc(self);
  }
};

struct Round : Step {
  static constexpr auto name = "round";
  template <class V>
  constexpr V forward(V self) const {
    return rint(self);
  }
};

/// To a multiple of 1 / by, where `by` is a power of ten.
struct RoundDecimals : Step {
  static constexpr auto name = "round_decimals";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  double by = 1;
  template <class V>
  constexpr V forward(V self) const {
    return by >= 1 ? rint(self * V(by)) / V(by) : rint(self / V(1 / by)) * V(1 / by);
  }
};

struct Sign : Step {
  static constexpr auto name = "sign";
  static constexpr auto types = Types::any;
  template <class V>
  constexpr V forward(V self) const {
    return sign(self);
  }
};

struct Frac : Unary {
  static constexpr auto name = "frac";
  static constexpr auto types = Types::floating_only;
  template <class V>
  constexpr V forward(V self) const {
    return self - trunc(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g;
  }
};

}  // namespace tensora::functors

#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

// At NaN the gradients pass or are zero as in PyTorch: most formulas test where the gradient is
// zero, and comparisons with NaN are false.

struct Relu : Unary {
  static constexpr auto name = "relu";
  static constexpr auto types = Types::number;
  static constexpr unsigned saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return select(self < lit<V>(0), lit<V>(0), self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.y <= lit<V>(0), lit<V>(0), s.g);
  }
};

struct LeakyRelu : Unary {
  static constexpr auto name = "leaky_relu";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = 1;  // the slope is rounded, too
  static constexpr unsigned saves_a = kA;
  Scalar negative_slope = 0.01;
  template <class V>
  constexpr V forward(V self) const {
    return select(self > lit<V>(0), self, self * lit<V>(negative_slope));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.a > lit<V>(0), s.g, s.g * lit<V>(negative_slope));
  }
};

struct Hardtanh : Unary {
  static constexpr auto name = "hardtanh";
  static constexpr auto types = Types::number;
  static constexpr unsigned saves_a = kA;
  Scalar min_val = -1;
  Scalar max_val = 1;
  template <class V>
  constexpr V forward(V self) const {
    return clamp(self, lit<V>(min_val), lit<V>(max_val));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select((s.a <= lit<V>(min_val)) | (s.a >= lit<V>(max_val)), lit<V>(0), s.g);
  }
};

struct Relu6 : Unary {
  static constexpr auto name = "relu6";
  static constexpr auto types = Types::number;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return clamp(self, lit<V>(0), lit<V>(6));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select((s.a <= lit<V>(0)) | (s.a >= lit<V>(6)), lit<V>(0), s.g);
  }
};

struct Hardsigmoid : Unary {
  static constexpr auto name = "hardsigmoid";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = 1.5;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return clamp(self + lit<V>(3), lit<V>(0), lit<V>(6)) / lit<V>(6);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select((s.a > lit<V>(-3)) & (s.a < lit<V>(3)), s.g / lit<V>(6), lit<V>(0));
  }
};

struct Hardswish : Unary {
  static constexpr auto name = "hardswish";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = 2;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return self * clamp(self + lit<V>(3), lit<V>(0), lit<V>(6)) / lit<V>(6);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V inside = s.g * (s.a / lit<V>(3) + lit<V>(0.5));
    return select(s.a <= lit<V>(-3), lit<V>(0), select(s.a < lit<V>(3), inside, s.g));
  }
};

struct Softshrink : Unary {
  static constexpr auto name = "softshrink";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr unsigned saves_a = kA;
  Scalar lambd = 0.5;
  template <class V>
  constexpr V forward(V self) const {
    const V limit = lit<V>(lambd);
    const V inside = self * lit<V>(0);  // keeps NaN
    return select(self > limit, self - limit, select(self < -limit, self + limit, inside));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(abs(s.a) <= lit<V>(lambd), lit<V>(0), s.g);
  }
};

struct Hardshrink : Unary {
  static constexpr auto name = "hardshrink";
  static constexpr auto types = Types::floating_only;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA;
  Scalar lambd = 0.5;
  template <class V>
  constexpr V forward(V self) const {
    return select(abs(self) <= lit<V>(lambd), lit<V>(0), self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(abs(s.a) <= lit<V>(lambd), lit<V>(0), s.g);
  }
};

struct Threshold : Unary {
  static constexpr auto name = "threshold";
  static constexpr auto types = Types::number;
  static constexpr unsigned saves_a = kA;
  Scalar threshold = 0;
  Scalar value = 0;
  template <class V>
  constexpr V forward(V self) const {
    return select(self <= lit<V>(threshold), lit<V>(value), self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.a <= lit<V>(threshold), lit<V>(0), s.g);
  }
};

struct Softsign : Unary {
  static constexpr auto name = "softsign";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = 2;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return self / (abs(self) + lit<V>(1));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V scale = abs(s.a) + lit<V>(1);
    return s.g / (scale * scale);
  }
};

}  // namespace tensora::functors

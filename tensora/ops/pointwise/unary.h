#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

inline constexpr double kRadiansPerDegree = 0.017453292519943295;

struct Neg : Unary {
  static constexpr auto name = "neg";
  static constexpr auto types = Types::number;
  static constexpr bool complex = true;
  template <class V>
  constexpr V forward(V self) const {
    return -self;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return -s.g;
  }
};

struct Abs : Unary {
  static constexpr auto name = "abs";
  static constexpr auto types = Types::number;
  static constexpr bool complex = true;
  static constexpr bool real_result = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return abs(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * sgn(s.a);
  }
};

struct Square : Unary {
  static constexpr auto name = "square";
  static constexpr auto types = Types::number;
  static constexpr bool full_on_gpu = true;
  static constexpr auto internal = true;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return self * self;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * conj(s.a) * lit<V>(2);
  }
};

/// pow(self, 3): products are ten times as fast as a power of any exponent.
struct Cube : Unary {
  static constexpr auto name = "cube";
  static constexpr auto types = Types::number;
  static constexpr double ulp = 2;
  static constexpr auto internal = true;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return self * self * self;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * conj(s.a * s.a) * lit<V>(3);
  }
};

struct Reciprocal : Unary {
  static constexpr auto name = "reciprocal";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return lit<V>(1) / self;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return -s.g * conj(s.y * s.y);
  }
};

struct Sqrt : Unary {
  static constexpr auto name = "sqrt";
  static constexpr auto types = Types::floating;
  static constexpr bool complex = true;
  static constexpr double low = 0.1, high = 4;
  static constexpr unsigned saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return sqrt(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g / (conj(s.y) * lit<V>(2));
  }
};

struct Rsqrt : Unary {
  static constexpr auto name = "rsqrt";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = 2;
  static constexpr bool complex = true;
  static constexpr double low = 0.1, high = 4;
  static constexpr unsigned saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return rsqrt(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * conj(s.y * s.y * s.y) * lit<V>(-0.5);
  }
};

struct Deg2rad : Unary {
  static constexpr auto name = "deg2rad";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = 1;  // the factor is rounded, too
  template <class V>
  constexpr V forward(V self) const {
    return self * lit<V>(kRadiansPerDegree);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * lit<V>(kRadiansPerDegree);
  }
};

struct Rad2deg : Unary {
  static constexpr auto name = "rad2deg";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = 1;  // the factor is rounded, too
  template <class V>
  constexpr V forward(V self) const {
    return self * lit<V>(1 / kRadiansPerDegree);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * lit<V>(1 / kRadiansPerDegree);
  }
};

/// Replaces NaN and infinities. The function nan_to_num chooses the numbers by dtype.
struct NanToNum : Unary {
  static constexpr auto name = "nan_to_num";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr unsigned saves_a = kA;
  double nan = 0;
  double posinf = 0;
  double neginf = 0;
  template <class V>
  constexpr V forward(V self) const {
    const V infinite = self > V(0) ? V(posinf) : V(neginf);
    return select(isnan(self), V(nan), select(isfinite(self), self, infinite));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(isfinite(s.a), s.g, lit<V>(0));
  }
};

}  // namespace tensora::functors

#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

struct Add : Binary {
  static constexpr auto name = "add";
  static constexpr bool complex = true;
  Scalar alpha = 1;
  template <class V>
  constexpr V forward(V self, V other) const {
    return self + scaled(other, alpha);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return scaled(s.g, conj(alpha));
  }
};

struct Sub : Binary {
  static constexpr auto name = "sub";
  static constexpr auto types = Types::number;
  static constexpr bool complex = true;
  Scalar alpha = 1;
  template <class V>
  constexpr V forward(V self, V other) const {
    return self - scaled(other, alpha);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return -scaled(s.g, conj(alpha));
  }
};

struct Mul : Binary {
  static constexpr auto name = "mul";
  static constexpr bool wraps = true;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kB, saves_b = kA;
  template <class V>
  constexpr V forward(V self, V other) const {
    return self * other;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * conj(s.b);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * conj(s.a);
  }
};

struct Div : Binary {
  static constexpr auto name = "div";
  static constexpr auto types = Types::floating;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    return self / other;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g / conj(s.b);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return -s.g * conj(s.a / s.b / s.b);  // the square might overflow
  }
};

/// div with rounding_mode "trunc".
struct DivTrunc : Binary {
  static constexpr auto name = "div_trunc";
  static constexpr auto types = Types::number;
  static constexpr double ulp = 1, ulp_step = 1;  // the quotient is rounded first
  static constexpr auto divides = true;
  static constexpr auto internal = true;
  template <class V>
  constexpr V forward(V self, V other) const {
    return div_trunc(self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return zero_like(s.g);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return zero_like(s.g);
  }
};

struct FloorDivide : Binary {
  static constexpr auto name = "floor_divide";
  static constexpr auto types = Types::number;
  static constexpr double ulp = 1, ulp_step = 1;  // the quotient is rounded first
  static constexpr auto divides = true;
  static constexpr double low = 0.5, high = 4;
  template <class V>
  constexpr V forward(V self, V other) const {
    return div_floor(self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return zero_like(s.g);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return zero_like(s.g);
  }
};

/// div_floor under the name that tensors have for it.
template <class T>
TENSORA_HD constexpr T floor_divide(T a, T b) {
  return div_floor(a, b);
}

struct Remainder : Binary {
  static constexpr auto name = "remainder";
  static constexpr auto types = Types::number;
  static constexpr auto divides = true;
  static constexpr unsigned saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    return remainder(self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return -s.g * floor_divide(s.a, s.b);
  }
};

struct Fmod : Binary {
  static constexpr auto name = "fmod";
  static constexpr auto types = Types::number;
  static constexpr auto divides = true;
  static constexpr unsigned saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    return fmod(self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return -s.g * div_trunc(s.a, s.b);
  }
};

struct Pow : Binary {
  static constexpr auto name = "pow";
  static constexpr auto types = Types::number;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr auto internal = true;
  static constexpr bool complex = true;
  static constexpr double low = 0.1, high = 3;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB | kY;
  template <class V>
  constexpr V forward(V self, V exponent) const {
    return pow(self, exponent);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V slope = s.g * conj(s.b * pow(s.a, s.b - lit<V>(1)));
    return select(s.b == lit<V>(0), lit<V>(0), slope);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    const V slope = conj(xlogy(conj(s.g) * s.y, s.a));
    return select((s.a == lit<V>(0)) & nonnegative(s.b), lit<V>(0), slope);
  }
};

struct Copysign : Binary {
  static constexpr auto name = "copysign";
  static constexpr auto types = Types::floating;
  static constexpr unsigned saves_a = kA | kY;
  template <class V>
  constexpr V forward(V self, V other) const {
    return copysign(self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.a == lit<V>(0), lit<V>(0), s.g * (s.y / s.a));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return zero_like(s.g);
  }
};

struct Heaviside : Binary {
  static constexpr auto name = "heaviside";
  static constexpr auto types = Types::any;
  static constexpr auto internal = true;
  static constexpr unsigned saves_b = kA;
  template <class V>
  constexpr V forward(V self, V values) const {
    return select(self == lit<V>(0), values, V(self > lit<V>(0)));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return zero_like(s.g);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return select(s.a == lit<V>(0), s.g, lit<V>(0));
  }
};

}  // namespace tensora::functors

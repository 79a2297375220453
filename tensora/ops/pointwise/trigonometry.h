#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

inline constexpr double kPi = 3.14159265358979324;

struct Sin : Unary {
  static constexpr auto name = "sin";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return sin(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * conj(cos(s.a));
  }
};

struct Cos : Unary {
  static constexpr auto name = "cos";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return cos(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return -s.g * conj(sin(s.a));
  }
};

struct Tan : Unary {
  static constexpr auto name = "tan";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr double low = -1.3, high = 1.3;
  static constexpr unsigned saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return tan(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * (s.y * s.y + lit<V>(1));
  }
};

// Note [Gradients of inverse functions]
// The gradients take the roots of 1 - z and 1 + z apart: their product would overflow first, and
// its root would have the wrong sign in half of the plane. z - (-1) is z + 1 with the sign of a
// zero kept: the sum of -0 and 0 is 0.
struct Asin : Unary {
  static constexpr auto name = "asin";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr double low = -0.9, high = 0.9;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return asin(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * conj(rsqrt(one_minus(s.a)) * rsqrt(s.a - lit<V>(-1)));
  }
};

struct Acos : Unary {
  static constexpr auto name = "acos";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr double low = -0.9, high = 0.9;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return acos(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return -s.g * conj(rsqrt(one_minus(s.a)) * rsqrt(s.a - lit<V>(-1)));
  }
};

struct Atan : Unary {
  static constexpr auto name = "atan";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return atan(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g / (s.a * s.a + lit<V>(1));
  }
};

struct Sinh : Unary {
  static constexpr auto name = "sinh";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return sinh(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * cosh(s.a);
  }
};

struct Cosh : Unary {
  static constexpr auto name = "cosh";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return cosh(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * sinh(s.a);
  }
};

struct Tanh : Unary {
  static constexpr auto name = "tanh";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return tanh(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * conj(lit<V>(1) - s.y * s.y);
  }
};

struct Asinh : Unary {
  static constexpr auto name = "asinh";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return asinh(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * rsqrt(s.a * s.a + lit<V>(1));
  }
};

struct Acosh : Unary {
  static constexpr auto name = "acosh";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp;
  static constexpr double low = 1.1, high = 4;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return acosh(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * conj(rsqrt(s.a - lit<V>(1)) * rsqrt(s.a - lit<V>(-1)));
  }
};

struct Atanh : Unary {
  static constexpr auto name = "atanh";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp;
  static constexpr double low = -0.9, high = 0.9;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return atanh(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g / conj(lit<V>(1) - s.a) / conj(s.a + lit<V>(1));
  }
};

struct Sinc : Unary {
  static constexpr auto name = "sinc";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp + 2, ulp_scale = 1;  // zeros at the integers
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    const V z = self * V(kPi);
    const V ratio = sin(z) / z;
    return select(self == V(0), V(1), ratio);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    // Near zero the two terms of the slope cancel: there its series is used.
    const V z = s.a * lit<V>(kPi);
    const V square = z * z;
    const V series =
        z *
        (((square * lit<V>(1.0 / 45360) - lit<V>(1.0 / 840)) * square + lit<V>(1.0 / 30)) * square -
         lit<V>(1.0 / 3));
    const V slope = (z * cos(z) - sin(z)) / square;
    return s.g * select(abs(z) < lit<V>(0.1), series, slope) * lit<V>(kPi);
  }
};

struct Atan2 : Binary {
  static constexpr auto name = "atan2";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    return atan2(self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V norm = s.a * s.a + s.b * s.b;
    return select(norm == lit<V>(0), lit<V>(0), s.g * s.b / norm);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    const V norm = s.a * s.a + s.b * s.b;
    return select(norm == lit<V>(0), lit<V>(0), -s.g * s.a / norm);
  }
};

struct Hypot : Binary {
  static constexpr auto name = "hypot";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = kLibraryUlp;
  static constexpr unsigned saves_a = kA | kY, saves_b = kB | kY;
  template <class V>
  constexpr V forward(V self, V other) const {
    return hypot(self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * (s.a / s.y);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * (s.b / s.y);
  }
};

}  // namespace tensora::functors

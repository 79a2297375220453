#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

inline constexpr double kLn2 = 0.69314718055994531, kLn10 = 2.3025850929940457;
inline constexpr double kNan = __builtin_bit_cast(double, 0x7ff8000000000000ull);

struct Exp : Unary {
  static constexpr auto name = "exp";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return exp(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * conj(s.y);
  }
};

struct Exp2 : Unary {
  static constexpr auto name = "exp2";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp;
  static constexpr unsigned saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return exp2(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * s.y * lit<V>(kLn2);
  }
};

struct Expm1 : Unary {
  static constexpr auto name = "expm1";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return expm1(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * conj(s.y + lit<V>(1));
  }
};

struct Log : Unary {
  static constexpr auto name = "log";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr bool complex = true;
  static constexpr double low = 0.1, high = 4;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return log(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g / conj(s.a);
  }
};

struct Log2 : Unary {
  static constexpr auto name = "log2";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr double low = 0.1, high = 4;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return log2(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g / (s.a * lit<V>(kLn2));
  }
};

struct Log10 : Unary {
  static constexpr auto name = "log10";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr double low = 0.1, high = 4;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return log10(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g / (s.a * lit<V>(kLn10));
  }
};

struct Log1p : Unary {
  static constexpr auto name = "log1p";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = kLibraryUlp;
  static constexpr double low = -0.9, high = 4;
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return log1p(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g / conj(s.a + lit<V>(1));
  }
};

struct Sigmoid : Unary {
  static constexpr auto name = "sigmoid";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = 6, ulp_scale = 1e-30;  // exp(-self) overflows first
  static constexpr bool complex = true;
  static constexpr unsigned saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return sigmoid(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * conj((lit<V>(1) - s.y) * s.y);
  }
};

/// Operands below eps become eps, others above 1 - eps become that, unless eps is negative.
struct Logit : Unary {
  static constexpr auto name = "logit";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = 6, ulp_scale = 1;  // a zero at 0.5
  static constexpr auto internal = true;
  static constexpr double low = 0.1, high = 0.9;
  static constexpr unsigned saves_a = kA;
  double eps = -1;
  template <class V>
  constexpr V forward(V self) const {
    const V x = eps < 0 ? self : select(self < V(eps), V(eps), minimum(self, V(1 - eps)));
    return log(x / (V(1) - x));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    const V slope = s.g / (s.a * (lit<V>(1) - s.a));
    const Scalar margin = eps < 0 ? 0.0 : eps;
    const auto outside = (s.a < lit<V>(margin)) | (s.a > lit<V>(1 - margin.to<double>()));
    return select(outside, lit<V>(eps < 0 ? kNan : 0.0), slope);
  }
};

struct Logaddexp : Binary {
  static constexpr auto name = "logaddexp";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = 8;
  static constexpr bool ulp_of_operands = true;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    const V larger = maximum(self, other);
    const V sum = larger + log1p_of_fraction(exp(-abs(self - other)));
    return select((self == other) & !isfinite(self), larger, sum);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g / (exp(s.b - s.a) + lit<V>(1));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g / (exp(s.a - s.b) + lit<V>(1));
  }
};

struct Logaddexp2 : Binary {
  static constexpr auto name = "logaddexp2";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = 8;
  static constexpr bool ulp_of_operands = true;
  static constexpr auto inplace = false;
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    const V larger = maximum(self, other);
    const V sum = larger + log1p_of_fraction(exp2(-abs(self - other))) * V(1 / kLn2);
    return select((self == other) & !isfinite(self), larger, sum);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g / (exp2(s.b - s.a) + lit<V>(1));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g / (exp2(s.a - s.b) + lit<V>(1));
  }
};

struct Xlogy : Binary {
  static constexpr auto name = "xlogy";
  static constexpr auto types = Types::floating;
  static constexpr bool complex = true;
  static constexpr double ulp = 2 * kLibraryUlp + 1;  // the product may lie lower in its power of 2
  static constexpr unsigned saves_a = kA | kB, saves_b = kA | kB;
  template <class V>
  constexpr V forward(V self, V other) const {
    return xlogy(self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select((s.a == lit<V>(0)) & nonnegative(-s.b), lit<V>(0), conj(xlogy(conj(s.g), s.b)));
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * conj(s.a) / conj(s.b);
  }
};

}  // namespace tensora::functors

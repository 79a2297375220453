#pragma once

#include "tensora/base/special.h"
#include "tensora/core/functor.h"

namespace tensora::functors {

inline constexpr double kTwoOverSqrtPi = 1.1283791670955126;

struct Erf : Unary {
  static constexpr auto name = "erf";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = kLibraryUlp;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return erf(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * exp(-s.a * s.a) * lit<V>(kTwoOverSqrtPi);
  }
};

struct Erfc : Unary {
  static constexpr auto name = "erfc";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = 5;  // of CUDA's
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return erfc(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * exp(-s.a * s.a) * lit<V>(-kTwoOverSqrtPi);
  }
};

struct Erfinv : Unary {
  static constexpr auto name = "erfinv";
  static constexpr auto types = Types::floating;
  static constexpr bool full_on_gpu = true;
  static constexpr double ulp = 6;
  static constexpr double low = -0.9, high = 0.9;
  static constexpr unsigned saves_a = kY;
  template <class V>
  constexpr V forward(V self) const {
    return erfinv(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * exp(s.y * s.y) * lit<V>(1 / kTwoOverSqrtPi);
  }
};

struct Lgamma : Unary {
  static constexpr auto name = "lgamma";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = 48, ulp_scale = 1;  // of CUDA's, about the zeros below -2
  static constexpr double low = 0.1, high = 4;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return lgamma(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * digamma(s.a);
  }
};

struct Digamma : Unary {
  static constexpr auto name = "digamma";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = 32, ulp_scale = 1;  // zeros, where larger terms cancel
  static constexpr double low = 0.1, high = 4;
  static constexpr unsigned saves_a = kA;
  template <class V>
  constexpr V forward(V self) const {
    return digamma(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * polygamma(1, s.a);
  }
};

struct Polygamma : Unary {
  static constexpr auto name = "polygamma";
  static constexpr auto types = Types::floating;
  static constexpr double ulp = 16;  // a sum of twenty powers
  static constexpr auto internal = true;
  static constexpr double low = 0.1, high = 4;
  static constexpr unsigned saves_a = kA;
  int n = 1;
  template <class V>
  constexpr V forward(V self) const {
    return polygamma(n, self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * polygamma(n + 1, s.a);
  }
};

}  // namespace tensora::functors

#pragma once

// Internal header
// The functions of base/special_list.h: one functor for those of one argument and one for those of
// two, so that each is a number and not a set of kernels.
// Not embedded: their series would be half of the text that the library carries for NVRTC.

#include "tensora/base/special.h"
#include "tensora/base/special_values.h"
#include "tensora/core/functor.h"

namespace tensora {

/// The functors' formulas for tensors, which gradients of gradients are made of.
Tensor special_function(int function, const Tensor& x);
Tensor special_pair(int function, const Tensor& a, const Tensor& b);
/// Throws: PyTorch has no derivative either.
Tensor no_derivative(int function, const Tensor& grad);

}  // namespace tensora

namespace tensora::functors {

inline constexpr auto kTestedApart = "the bounds differ by function; tests/ops/special_test.cpp";

struct SpecialFunction : Unary {
  static constexpr auto name = "special_function";
  static constexpr auto types = Types::floating;
  static constexpr auto internal = true;
  static constexpr auto no_ulp = kTestedApart;
  static constexpr unsigned saves_a = kA | kY;
  int function = 0;
  template <class V>
  constexpr V forward(V self) const {
    return special_function(function, self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * derivative<V>(s.a, s.y);
  }

 private:
  template <class V>
  constexpr V derivative(const V& a, const V& y) const {
    switch (function) {
      case kBesselI0:
        return special_function(kBesselI1, a);
      case kBesselI0e:
        return special_function(kBesselI1e, a) - sign(a) * y;
      case kBesselI1:
        return at_0<V>(a, special_function(kBesselI0, a) - y / nonzero<V>(a));
      case kBesselI1e:
        return at_0<V>(a,
                       special_function(kBesselI0e, a) - y * (sign(a) + lit<V>(1) / nonzero<V>(a)));
      case kBesselJ0:
        return -special_function(kBesselJ1, a);
      case kBesselJ1:
        return at_0<V>(a, special_function(kBesselJ0, a) - y / nonzero<V>(a));
      case kBesselY0:
        return -special_function(kBesselY1, a);
      case kBesselY1:
        return special_function(kBesselY0, a) - y / a;
      case kBesselK0:
        return -special_function(kBesselK1, a);
      case kBesselK1:
        return -special_function(kBesselK0, a) - y / a;
      case kErfcx:
        return a * y * lit<V>(2) - lit<V>(1.1283791670955126);
      case kNdtri:
        return exp(y * y * lit<V>(0.5)) * lit<V>(2.5066282746310002);
      case kLogNdtr:
        return lit<V>(0.79788456080286536) /
               special_function(kErfcx, a * lit<V>(-0.70710678118654752));
      default:
        return -log(a) - lit<V>(1);  // entr
    }
  }
  // I1 and J1 have the slope 1/2 at 0, where the recurrence is 0 / 0.
  template <class V>
  static constexpr V at_0(const V& a, const V& elsewhere) {
    return select(a == lit<V>(0), lit<V>(0.5), elsewhere);
  }
  template <class V>
  static constexpr V nonzero(const V& a) {
    return select(a == lit<V>(0), lit<V>(1), a);
  }
};

struct SpecialPair : Binary {
  static constexpr auto name = "special_pair";
  static constexpr auto types = Types::floating;
  static constexpr auto internal = true;
  static constexpr auto no_ulp = kTestedApart;
  static constexpr unsigned saves_b = kA | kB;
  int function = 0;
  template <class V>
  constexpr V forward(V self, V other) const {
    return special_pair(function, self, other);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return no_derivative(function, s.g);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    if (function == kZeta) return -s.g * s.a * special_pair(kZeta, s.a + lit<V>(1), s.b);
    const V density = exp((s.a - lit<V>(1)) * log(s.b) - s.b - lgamma(s.a));
    return function == kIgamma ? s.g * density : -s.g * density;
  }
};

}  // namespace tensora::functors

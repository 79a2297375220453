#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

struct Where : Ternary {
  static constexpr auto name = "where";
  static constexpr auto inplace = false;
  static constexpr auto condition_first = true;
  static constexpr bool complex = true;
  static constexpr bool chooses = true;
  static constexpr unsigned saves_b = kA, saves_c = kA;
  template <class V>
  constexpr V forward(V condition, V self, V other) const {
    return select(condition != lit<V>(0), self, other);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return select(s.a != lit<V>(0), s.g, lit<V>(0));
  }
  template <class V>
  constexpr V vjp_c(const Saved<V>& s) const {
    return select(s.a != lit<V>(0), lit<V>(0), s.g);
  }
};

struct Lerp : Ternary {
  static constexpr auto name = "lerp";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = 5;
  static constexpr bool ulp_of_operands = true;
  static constexpr unsigned saves_a = kC, saves_b = kC, saves_c = kA | kB;
  template <class V>
  constexpr V forward(V self, V end, V weight) const {
    // From the nearer end, so that both ends are met exactly.
    const V distance = end - self;
    return select(abs(weight) < V(0.5), self + weight * distance, end - distance * (V(1) - weight));
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g * (lit<V>(1) - s.c);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * s.c;
  }
  template <class V>
  constexpr V vjp_c(const Saved<V>& s) const {
    return s.g * (s.b - s.a);
  }
};

struct Addcmul : Ternary {
  static constexpr auto name = "addcmul";
  static constexpr auto types = Types::number;
  static constexpr double ulp = 2;
  static constexpr bool ulp_of_operands = true;
  static constexpr bool complex = true;
  static constexpr unsigned saves_b = kC, saves_c = kB;
  Scalar value = 1;
  template <class V>
  constexpr V forward(V self, V tensor1, V tensor2) const {
    return self + lit<V>(value) * tensor1 * tensor2;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * conj(s.c * lit<V>(value));
  }
  template <class V>
  constexpr V vjp_c(const Saved<V>& s) const {
    return s.g * conj(s.b * lit<V>(value));
  }
};

struct Addcdiv : Ternary {
  static constexpr auto name = "addcdiv";
  static constexpr auto types = Types::floating_only;
  static constexpr double ulp = 2;
  static constexpr bool ulp_of_operands = true;
  static constexpr unsigned saves_b = kC, saves_c = kB | kC;
  Scalar value = 1;
  template <class V>
  constexpr V forward(V self, V tensor1, V tensor2) const {
    return self + lit<V>(value) * tensor1 / tensor2;
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return s.g;
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return s.g * lit<V>(value) / s.c;
  }
  template <class V>
  constexpr V vjp_c(const Saved<V>& s) const {
    return -s.g * lit<V>(value) * s.b / (s.c * s.c);
  }
};

}  // namespace tensora::functors

#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

/// The result is bool; in place it is stored as 0 or 1 of the tensor's dtype.
struct Predicate : Binary {
  static constexpr auto types = Types::predicate;
  static constexpr auto differentiable = false;
};
struct UnaryPredicate : Unary {
  static constexpr auto types = Types::predicate;
  static constexpr auto differentiable = false;
  static constexpr auto inplace = false;
};

struct Eq : Predicate {
  static constexpr auto name = "eq";
  static constexpr bool complex = true;
  static constexpr bool chooses = true;
  template <class V>
  constexpr V forward(V self, V other) const {
    return V(self == other);
  }
};

struct Ne : Predicate {
  static constexpr auto name = "ne";
  static constexpr bool complex = true;
  static constexpr bool chooses = true;
  template <class V>
  constexpr V forward(V self, V other) const {
    return V(self != other);
  }
};

struct Lt : Predicate {
  static constexpr auto name = "lt";
  template <class V>
  constexpr V forward(V self, V other) const {
    return V(self < other);
  }
};

struct Le : Predicate {
  static constexpr auto name = "le";
  template <class V>
  constexpr V forward(V self, V other) const {
    return V(self <= other);
  }
};

struct Gt : Predicate {
  static constexpr auto name = "gt";
  template <class V>
  constexpr V forward(V self, V other) const {
    return V(self > other);
  }
};

struct Ge : Predicate {
  static constexpr auto name = "ge";
  template <class V>
  constexpr V forward(V self, V other) const {
    return V(self >= other);
  }
};

/// For floating-point operands; the function isclose sees to that.
struct Isclose : Predicate {
  static constexpr auto name = "isclose";
  static constexpr auto internal = true;
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;
  template <class V>
  constexpr V forward(V self, V other) const {
    const V distance = abs(self - other);
    const bool near = isfinite(distance) & (distance <= V(atol) + abs(V(rtol) * other));
    const bool both_nan = isnan(self) & isnan(other) & equal_nan;
    return V((self == other) | near | both_nan);
  }
};

struct Isnan : UnaryPredicate {
  static constexpr auto name = "isnan";
  static constexpr bool complex = true;
  static constexpr bool chooses = true;
  template <class V>
  constexpr V forward(V self) const {
    return V(isnan(self));
  }
};

struct Isfinite : UnaryPredicate {
  static constexpr auto name = "isfinite";
  static constexpr bool complex = true;
  static constexpr bool chooses = true;
  template <class V>
  constexpr V forward(V self) const {
    return V(isfinite(self));
  }
};

struct Isinf : UnaryPredicate {
  static constexpr auto name = "isinf";
  static constexpr bool complex = true;
  static constexpr bool chooses = true;
  template <class V>
  constexpr V forward(V self) const {
    return V(isinf(self));
  }
};

}  // namespace tensora::functors

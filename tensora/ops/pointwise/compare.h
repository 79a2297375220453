#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

struct Predicate : Binary {
  static constexpr auto types = Types::predicate;
  static constexpr auto differentiable = false;
};

struct Gt : Predicate {
  static constexpr auto name = "gt";
  static constexpr auto inplace = false;
  template <class V>
  constexpr V forward(V self, V other) const {
    return V(self > other);
  }
};

struct Lt : Predicate {
  static constexpr auto name = "lt";
  static constexpr auto inplace = false;
  template <class V>
  constexpr V forward(V self, V other) const {
    return V(self < other);
  }
};

}  // namespace tensora::functors

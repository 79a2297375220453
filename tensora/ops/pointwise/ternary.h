#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

struct Where : Ternary {
  static constexpr auto name = "where";
  static constexpr auto inplace = false;
  static constexpr auto condition_first = true;
  static constexpr auto direct = true;
  static constexpr auto saves_b = kA, saves_c = kA;
  template <class V>
  constexpr V forward(V condition, V self, V other) const {
    return select(condition != lit<V>(0), self, other);
  }
  template <class V>
  constexpr V vjp_b(const Saved<V>& s) const {
    return select(s.a, s.g, lit<V>(0));
  }
  template <class V>
  constexpr V vjp_c(const Saved<V>& s) const {
    return select(s.a, lit<V>(0), s.g);
  }
};

}  // namespace tensora::functors

#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

/// Of complex tensors; the function conj gives a real one back as it is.
struct Conj : Unary {
  static constexpr auto name = "conj";
  static constexpr auto types = Types::floating_only;
  static constexpr auto internal = true;
  static constexpr bool complex = true;
  template <class V>
  constexpr V forward(V self) const {
    return conj(self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return conj(s.g);
  }
};

}  // namespace tensora::functors

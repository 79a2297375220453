#pragma once

#include "tensora/core/functor.h"

namespace tensora::functors {

/// The public functions, which check the mask and fit the value, are in ops/index/masked.h.
struct MaskedFill : Binary {
  static constexpr auto name = "masked_fill";
  static constexpr auto internal = true;
  static constexpr bool complex = true;
  static constexpr bool chooses = true;
  static constexpr unsigned saves_a = kB;
  Scalar value = 0;
  template <class V>
  constexpr V forward(V self, V mask) const {
    return select(mask != lit<V>(0), lit<V>(value), self);
  }
  template <class V>
  constexpr V vjp_a(const Saved<V>& s) const {
    return select(s.b != lit<V>(0), lit<V>(0), s.g);
  }
};

}  // namespace tensora::functors

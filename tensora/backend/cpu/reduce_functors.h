#pragma once

// Functors that several reductions are built from. See backend/cpu/reduce.h for their frame.

#include <limits>

#include "tensora/backend/cpu/reduce.h"

namespace tensora::cpu::TENSORA_ISA {

/// Float sums are kept in double between runs: the error does not grow with the number of elements.
template <class C>
using sum_t = std::conditional_t<std::is_floating_point_v<C>, double, int64_t>;

template <class C>
struct Sum {
  using Value = C;
  using Lane = C;
  using Acc = sum_t<C>;
  using Out = Acc;
  Lane lane() const { return 0; }
  Lane step(Lane lane, C x) const { return lane + x; }
  Lane merge(Lane a, Lane b) const { return a + b; }
  Acc widen(Lane lane) const { return lane; }
  Acc combine(Acc a, Acc b) const { return a + b; }
  Out finish(Acc acc) const { return acc; }
};

/// The largest or the smallest element; NaN if there is one.
template <class C, bool largest>
struct Extremum {
  using Value = C;
  using Lane = C;
  using Acc = C;
  using Out = C;
  static constexpr bool beats(C x, C y) { return largest ? x > y : x < y; }
  /// Whether `x` takes the place of an earlier `y`.
  static constexpr bool replaces(C x, C y) { return beats(x, y) | ((x != x) & (y == y)); }
  Lane lane() const {
    using Limits = std::numeric_limits<C>;
    if constexpr (Limits::has_infinity)
      return largest ? -Limits::infinity() : Limits::infinity();
    else
      return largest ? Limits::lowest() : Limits::max();
  }
  Lane step(Lane lane, C x) const { return beats(x, lane) | (x != x) ? x : lane; }
  Lane merge(Lane a, Lane b) const { return step(a, b); }
  Acc widen(Lane lane) const { return lane; }
  Acc combine(Acc a, Acc b) const { return step(a, b); }
  Out finish(Acc acc) const { return acc; }
};

}  // namespace tensora::cpu::TENSORA_ISA

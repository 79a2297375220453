#pragma once

// The largest and the smallest, with and without their positions. See core/reduction.h for the
// protocol.

#include "tensora/core/reduction.h"

namespace tensora::reductions {

// Note [Zero extrema]
// Zeros of both signs tie, and which of them is kept depends on how the elements were dealt out to
// lanes and tiles. So an extremum that is zero is 0, never -0.

/// The largest or the smallest element; NaN if there is one.
template <class C, bool largest>
struct Extremum : Reduction {
  using Value = C;
  using Lane = C;
  using Acc = C;
  using Out = C;
  TENSORA_HD static constexpr bool beats(C x, C y) { return largest ? x > y : x < y; }
  /// Whether `x` takes the place of an earlier `y`.
  TENSORA_HD static constexpr bool replaces(C x, C y) {
    return beats(x, y) | ((x != x) & (y == y));
  }
  /// What every other element beats or equals.
  TENSORA_HD Lane lane() const {
    if constexpr (is_float<C>) {
      const C infinity = static_cast<C>(__builtin_huge_val());
      return largest ? -infinity : infinity;
    } else {
      static_assert(sizeof(C) == 8);
      constexpr long kHighest = 0x7fffffffffffffff;
      return largest ? -kHighest - 1 : kHighest;
    }
  }
  TENSORA_HD Lane step(Lane lane, C x) const { return beats(x, lane) | (x != x) ? x : lane; }
  TENSORA_HD Lane merge(Lane a, Lane b) const { return step(a, b); }
  TENSORA_HD Acc widen(Lane lane) const { return lane; }
  TENSORA_HD Acc combine(Acc a, Acc b) const { return step(a, b); }
  TENSORA_HD Out finish(Acc acc) const { return acc == C(0) ? C(0) : acc; }
};

template <class C>
using MinMax = Both<Extremum<C, false>, Extremum<C, true>>;

/// The norms of infinite order.
template <class C, bool largest>
struct NormInf : Extremum<C, largest> {
  using Base = Extremum<C, largest>;
  TENSORA_HD C lane() const { return largest ? C(0) : Base::lane(); }
  TENSORA_HD C step(C lane, C x) const { return Base::step(lane, math::abs(x)); }
};

/// The extremum and its position, or with `values` off the position alone. Of several that tie the
/// first is taken, whoever saw it.
template <class C, bool largest, bool values>
struct Chosen : Reduction {
  using Best = Extremum<C, largest>;
  using Value = C;
  struct Lane {
    C value;
    unsigned index;
  };
  struct Acc {
    C value;
    long index;  // -1: nothing was better than the worst value so far
  };
  using Out = typename detail::Choose<values, C, long>::type;
  static constexpr bool kIndexed = true;
  static constexpr int kOutputs = values ? 2 : 1;
  static constexpr unsigned kNone = 0xffffffffu;

  TENSORA_HD Lane lane() const { return {Best().lane(), kNone}; }
  // Positions ascend within a lane, so the first of equal elements stays.
  TENSORA_HD Lane step(Lane lane, C x, unsigned index) const {
    const bool better = Best::replaces(x, lane.value);
    return {better ? x : lane.value, better ? index : lane.index};
  }
  TENSORA_HD Lane merge(Lane a, Lane b) const {
    return comes_first(b.value, b.index, a.value, a.index) ? b : a;
  }
  TENSORA_HD Acc widen(Lane lane) const {
    return {lane.value, lane.index == kNone ? -1 : static_cast<long>(lane.index)};
  }
  TENSORA_HD Acc combine(Acc a, Acc b) const {
    if (b.index < 0) return a;
    return a.index < 0 || comes_first(b.value, b.index, a.value, a.index) ? b : a;
  }
  TENSORA_HD Out finish(Acc acc) const {
    if constexpr (values)
      return acc.value;
    else
      return second(acc);
  }
  // Where everything is the worst value, the first position is the answer.
  TENSORA_HD long second(Acc acc) const { return acc.index < 0 ? 0 : acc.index; }

 private:
  template <class Index>
  TENSORA_HD static bool comes_first(C x, Index x_at, C y, Index y_at) {
    return Best::replaces(x, y) || (!Best::replaces(y, x) && x_at < y_at);
  }
};

}  // namespace tensora::reductions

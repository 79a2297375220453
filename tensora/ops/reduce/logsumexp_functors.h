#pragma once

#include "tensora/ops/reduce/extremum_functors.h"
#include "tensora/ops/reduce/sum_functors.h"

namespace tensora::reductions {

/// log of the sum of exponentials: the largest element so far, and the sum relative to it.
template <class C>
struct LogSumExp : Reduction {
  using Value = C;
  using Highest = Extremum<C, true>;
  struct Lane {
    C maximum, sum;
  };
  struct Acc {
    C maximum;
    double sum;  // of exp(x - shift_for(maximum))
  };
  using Out = double;
  static constexpr bool kMathInFinish = true;

  /// What is subtracted before exp: the maximum, but an infinite one would make NaN of itself.
  TENSORA_HD static C shift_for(C maximum) {
    const C infinity = -Highest().lane();
    return math::abs(maximum) == infinity ? C(0) : maximum;
  }

  TENSORA_HD Lane lane() const { return {Highest().lane(), 0}; }
  TENSORA_HD Lane step(Lane lane, C x) const {
    if (!Highest::replaces(x, lane.maximum)) {
      lane.sum += math::exp(x - shift_for(lane.maximum));
      return lane;
    }
    const C shift = shift_for(x);
    return {x, rescaled(lane.maximum, lane.sum, shift) + math::exp(x - shift)};
  }
  TENSORA_HD Lane merge(Lane a, Lane b) const { return joined(a, b); }
  TENSORA_HD Acc widen(Lane lane) const { return {lane.maximum, lane.sum}; }
  TENSORA_HD Acc combine(Acc a, Acc b) const { return joined(a, b); }
  TENSORA_HD Out finish(Acc acc) const { return math::log(acc.sum) + shift_for(acc.maximum); }

  // See Note [Two looks].
  struct ShiftedExp : Sum<C> {
    C center;
    TENSORA_HD explicit ShiftedExp(C shift) : center(shift) {}
    TENSORA_HD C step(C lane, C x) const { return lane + math::exp(x - center); }
  };
  TENSORA_HD Highest first_look(C) const { return {}; }
  TENSORA_HD ShiftedExp second_look(C, C maximum, double) const {
    return ShiftedExp(shift_for(maximum));
  }
  TENSORA_HD Acc of_run(C, C maximum, const ShiftedExp&, C sum, double) const {
    return {maximum, sum};
  }

 private:
  // Nothing stays nothing, however far the shift moves.
  template <class S>
  TENSORA_HD static S rescaled(C maximum, S sum, C shift) {
    return sum == 0 ? S(0) : sum * math::exp(static_cast<S>(shift_for(maximum)) - shift);
  }
  template <class Part>
  TENSORA_HD static Part joined(Part a, Part b) {
    const C maximum = Highest().merge(a.maximum, b.maximum), shift = shift_for(maximum);
    return {maximum, rescaled(a.maximum, a.sum, shift) + rescaled(b.maximum, b.sum, shift)};
  }
};

}  // namespace tensora::reductions

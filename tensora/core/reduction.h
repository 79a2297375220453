#pragma once

// The protocol of reductions. A reduction is one functor: what it accumulates, how an element is
// added, how two partial results are combined and what is returned, each written once. The loops of
// the CPU (backend/cpu/reduce.h) and of CUDA (backend/cuda/loops/reduce.cuh, rows.cuh) are built
// around it. Like core/functor.h this compiles with NVRTC: it includes nothing of the standard
// library.
//
// A functor over a compute type C (float, double, int64_t; on the CPU also bytes):
//   using Value = C;                     what comes in
//   using Lane;                          accumulates a short run, in registers
//   using Acc;                           accumulates runs; wider than Lane where rounding matters
//   using Out;                           what is stored
//   Lane lane() const;                   the neutral element
//   Lane step(Lane, C) const;            accumulates one element
//   Lane step(Lane, C, unsigned index) const;       the same where kIndexed
//   Lane merge(Lane, Lane) const;
//   Acc widen(Lane) const;
//   Acc combine(Acc, Acc) const;         the second came later, or beside the first
//   Out finish(Acc) const;
//   auto second(Acc) const;              for output 1, where kOutputs is 2
//
// Note [Two looks]
// Some reductions profit from two passes ("looks") over a run of elements: the first finds the
// maximum or the mean, the second sums the exponentials or the deviations. Where a loop has the run
// in cache or in registers, that costs no memory traffic, and each pass is a plain reduction that
// vectorises. Such a functor also has:
//   auto first_look(C first) const;                     a functor; `first` is an element of the run
//   auto second_look(C first, Lane1 seen, double count) const;
//                                        another, knowing the first's result: made of one number,
//                                        its member `center`
//   Acc of_run(C first, Lane1 seen, const Look2&, Lane2 seen_then, double count) const;
//
// Note [Taken again]
// Squares may overflow where the final result would not. A functor may detect that and have the
// elements of the part that overflowed, which is rare, reduced again by a slower functor:
//   bool fits(Acc) const;
//   auto wide() const;                   a functor over double with the same Acc: lanes and widen
//   auto over_double() const;            the functor itself over double, for two looks

#include "tensora/base/math.h"

namespace tensora::reductions {

namespace detail {
template <bool condition, class A, class B>
struct Choose {
  using type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using type = B;
};
}  // namespace detail

template <class C>
inline constexpr bool is_float = C(1) / C(2) != C(0);

/// Float sums are kept in double between runs: the error does not grow with the number of elements.
template <class C>
using sum_t = typename detail::Choose<is_float<C>, double, long>::type;

/// Defaults of a functor.
struct Reduction {
  static constexpr bool kIndexed = false;  // needs the position of each element, in logical order
  static constexpr int kOutputs = 1;
  static constexpr bool kMathInFinish = false;  // finish calls elementary functions
};

/// Two reductions of the same elements; output 0 is the first's, output 1 the second's.
template <class A, class B>
struct Both : Reduction {
  using PartA = A;
  using PartB = B;
  using Value = typename A::Value;
  struct Lane {
    typename A::Lane a;
    typename B::Lane b;
  };
  struct Acc {
    typename A::Acc a;
    typename B::Acc b;
  };
  using Out = typename A::Out;
  static constexpr int kOutputs = 2;
  A part_a;
  B part_b;

  TENSORA_HD Lane lane() const { return {part_a.lane(), part_b.lane()}; }
  TENSORA_HD Lane step(Lane lane, Value x) const {
    return {part_a.step(lane.a, x), part_b.step(lane.b, x)};
  }
  TENSORA_HD Lane merge(Lane x, Lane y) const {
    return {part_a.merge(x.a, y.a), part_b.merge(x.b, y.b)};
  }
  TENSORA_HD Acc widen(Lane lane) const { return {part_a.widen(lane.a), part_b.widen(lane.b)}; }
  TENSORA_HD Acc combine(Acc x, Acc y) const {
    return {part_a.combine(x.a, y.a), part_b.combine(x.b, y.b)};
  }
  TENSORA_HD Out finish(Acc acc) const { return part_a.finish(acc.a); }
  TENSORA_HD typename B::Out second(Acc acc) const { return part_b.finish(acc.b); }
};

}  // namespace tensora::reductions

#pragma once

// Sums, products, counts and the norms that are sums. See core/reduction.h for the protocol.

#include "tensora/core/reduction.h"

namespace tensora::reductions {

template <class C>
struct Sum : Reduction {
  using Value = C;
  using Lane = C;
  using Acc = sum_t<C>;
  using Out = Acc;
  TENSORA_HD Lane lane() const { return 0; }
  TENSORA_HD Lane step(Lane lane, C x) const { return lane + x; }
  TENSORA_HD Lane merge(Lane a, Lane b) const { return a + b; }
  TENSORA_HD Acc widen(Lane lane) const { return lane; }
  TENSORA_HD Acc combine(Acc a, Acc b) const { return a + b; }
  TENSORA_HD Out finish(Acc acc) const { return acc; }
};

template <class C>
struct Mean : Sum<C> {
  using Out = double;
  double count = 1;
  TENSORA_HD double finish(double acc) const { return acc / count; }
};

template <class C>
struct NanSum : Sum<C> {
  TENSORA_HD C step(C lane, C x) const { return lane + (x == x ? x : C(0)); }
};

template <class C>
struct Product : Reduction {
  using Value = C;
  using Lane = C;
  using Acc = sum_t<C>;
  using Out = Acc;
  TENSORA_HD Lane lane() const { return 1; }
  TENSORA_HD Lane step(Lane lane, C x) const { return lane * x; }
  TENSORA_HD Lane merge(Lane a, Lane b) const { return a * b; }
  TENSORA_HD Acc widen(Lane lane) const { return lane; }
  TENSORA_HD Acc combine(Acc a, Acc b) const { return a * b; }
  TENSORA_HD Out finish(Acc acc) const { return acc; }
};

/// An integer as wide as the elements, so that vectors of comparisons need no repacking.
template <class C, class Byte>
using count_lane_t =
    typename detail::Choose<sizeof(C) == 1, Byte,
                            typename detail::Choose<sizeof(C) == 4, int, long>::type>::type;

/// NaN is not zero. Bytes are counted in 16 bits, which a run of the CPU's loops cannot overflow.
template <class C>
struct CountNonzero : Reduction {
  using Value = C;
  using Lane = count_lane_t<C, unsigned short>;
  using Acc = long;
  using Out = long;
  TENSORA_HD Lane lane() const { return 0; }
  TENSORA_HD Lane step(Lane lane, C x) const { return static_cast<Lane>(lane + (x != 0)); }
  TENSORA_HD Lane merge(Lane a, Lane b) const { return static_cast<Lane>(a + b); }
  TENSORA_HD Acc widen(Lane lane) const { return lane; }
  TENSORA_HD Acc combine(Acc a, Acc b) const { return a + b; }
  TENSORA_HD Out finish(Acc acc) const { return acc; }
};

/// all (`every`) and any.
template <class C, bool every>
struct Truth : Reduction {
  using Value = C;
  using Lane = count_lane_t<C, unsigned char>;
  using Acc = Lane;
  using Out = long;
  TENSORA_HD Lane lane() const { return every; }
  TENSORA_HD Lane step(Lane lane, C x) const { return merge(lane, x != 0); }
  TENSORA_HD Lane merge(Lane a, Lane b) const { return static_cast<Lane>(every ? a & b : a | b); }
  TENSORA_HD Acc widen(Lane lane) const { return lane; }
  TENSORA_HD Acc combine(Acc a, Acc b) const { return merge(a, b); }
  TENSORA_HD Out finish(Acc acc) const { return acc; }
};

template <class C>
struct Norm0 : Sum<C> {
  TENSORA_HD C step(C lane, C x) const { return lane + (x == 0 ? C(0) : C(1)); }
};

template <class C>
struct Norm1 : Sum<C> {
  TENSORA_HD C step(C lane, C x) const { return lane + math::abs(x); }
};

template <class C>
struct Norm2 : Sum<C> {
  TENSORA_HD C step(C lane, C x) const { return lane + x * x; }
  TENSORA_HD double finish(double acc) const { return math::sqrt(acc); }
};

template <class C>
struct NormP : Sum<C> {
  static constexpr bool kMathInFinish = true;
  C p;
  double inverse;
  TENSORA_HD explicit NormP(double power) : p(static_cast<C>(power)), inverse(1 / power) {}
  TENSORA_HD C step(C lane, C x) const { return lane + math::pow(math::abs(x), p); }
  TENSORA_HD double finish(double acc) const { return math::pow(acc, inverse); }
};

}  // namespace tensora::reductions

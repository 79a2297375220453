#pragma once

// The ops of functors, as their kernels see them. The functors are in unary.h, binary.h, …; the
// functions that users call are in the generated header functions.h.

#include "tensora/core/functor.h"
#include "tensora/dispatch/op_def.h"

namespace tensora {

/// The op of a functor; defined in generated code, one per functor.
template <class F>
const OpDef<F>& pointwise_op();

namespace functors {

/// The gradient of operand I of F as a pointwise functor of its own: one fused pass instead of an
/// op per arithmetic step. Its operands are g and then what F saves for this gradient.
template <class F, int I>
struct Backward : PointwiseBase {
  F functor;
  static constexpr unsigned saves = I == 0 ? F::saves_a : I == 1 ? F::saves_b : F::saves_c;
  static constexpr int arity =
      1 + bool(saves & kA) + bool(saves & kB) + bool(saves & kC) + bool(saves & kY);
  static constexpr auto types = Types::floating;
  static constexpr bool complex = F::complex;

  template <class V>
  static constexpr Saved<V> unpack(const V* operands) {
    Saved<V> s{};
    int next = 0;
    s.g = operands[next++];
    if constexpr (bool(saves & kA)) s.a = operands[next++];
    if constexpr (bool(saves & kB)) s.b = operands[next++];
    if constexpr (bool(saves & kC)) s.c = operands[next++];
    if constexpr (bool(saves & kY)) s.y = operands[next++];
    return s;
  }
  template <class V>
  static constexpr V gradient(const F& functor, const Saved<V>& s) {
    if constexpr (I == 0)
      return functor.vjp_a(s);
    else if constexpr (I == 1)
      return functor.vjp_b(s);
    else
      return functor.vjp_c(s);
  }
  template <class V, class... Vs>
  constexpr V forward(V g, Vs... saved) const {
    const V operands[] = {g, saved...};
    return gradient(functor, unpack(operands));
  }
};

// The attributes of the gradient are those of the functor.
template <class F, int I>
constexpr auto describe(std::type_identity<Backward<F, I>>) {
  return [](auto&& body) {
    describe(std::type_identity<F>{})([&](auto... listed) {
      body(NestedField{listed.name, &Backward<F, I>::functor, listed}...);
    });
  };
}

}  // namespace functors

}  // namespace tensora

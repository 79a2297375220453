#pragma once

// How a functor becomes an op. The functors are in unary.h, binary.h, …; the functions that users
// call are in the generated header functions.h.

#include "tensora/core/functor.h"
#include "tensora/dispatch/op.h"

namespace tensora {

/// The op of a functor; defined in generated code, one per functor.
template <class F>
const OpDef<F>& pointwise_op();

/// The typing and the shape rule that all pointwise ops share.
void infer_pointwise(Infer& infer, functors::Types types, bool condition_first, bool real_result);

/// A number that was saved for a gradient, as a tensor that keeps its precision in expressions.
Tensor unwrap_number(const Tensor& operand);

/// The dtype in which operands meet, by PyTorch's rules: tensors with dims count before 0-dim
/// tensors, and those before plain numbers, unless a later one is of a higher category.
DType result_type(Args inputs);

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

template <class F, int I>
constexpr auto describe(std::type_identity<Backward<F, I>>) {
  return fields(field("functor", &Backward<F, I>::functor));
}

// The functor inside a Backward's attributes is shown as its own attributes.
template <class F>
  requires std::is_base_of_v<PointwiseBase, F>
AttrValue to_attr_value(const F& functor) {
  AttrValue result;
  result.kind = AttrValue::Kind::text;
  result.text = concat(F::name, "(", to_string(detail::list_attrs<F>(&functor)), ")");
  return result;
}
template <class F>
  requires std::is_base_of_v<PointwiseBase, F>
void from_attr_value(const AttrValue&, F&) {
  fail("a gradient op cannot be built from attribute values");
}

}  // namespace functors

namespace detail {

constexpr uint32_t slots(unsigned saves) {
  return (saves & functors::kA ? in(0) : 0) | (saves & functors::kB ? in(1) : 0) |
         (saves & functors::kC ? in(2) : 0) | (saves & functors::kY ? out(0) : 0);
}

template <class F>
Tensor saved_operand(const Vjp& vjp, unsigned saves, unsigned which) {
  if (!(saves & which)) return {};
  if (which == functors::kY) return vjp.output();
  return vjp.input(which == functors::kA ? 0 : which == functors::kB ? 1 : 2);
}

template <class F, int I>
void pointwise_vjp_of(Vjp& vjp, const F& functor) {
  using B = functors::Backward<F, I>;
  if (!vjp.needs(I)) return;
  functors::Saved<Tensor> s{vjp.grad(), saved_operand<F>(vjp, B::saves, functors::kA),
                            saved_operand<F>(vjp, B::saves, functors::kB),
                            saved_operand<F>(vjp, B::saves, functors::kC),
                            saved_operand<F>(vjp, B::saves, functors::kY)};
  if constexpr (B::saves == functors::kNothing) {
    vjp.set(I, B::gradient(functor, s));
  } else {
    SmallVector<Arg, 5> operands;
    for (const Tensor* tensor : {&s.g, &s.a, &s.b, &s.c, &s.y})
      if (tensor->defined()) operands.emplace_back(*tensor);
    vjp.set(I, apply(pointwise_op<B>(), Args(operands), B{{}, functor}));
  }
}

template <class F, int I>
concept HasVjp = (I == 0 && requires(F f, functors::Saved<float> s) { f.vjp_a(s); }) ||
                 (I == 1 && requires(F f, functors::Saved<float> s) { f.vjp_b(s); }) ||
                 (I == 2 && requires(F f, functors::Saved<float> s) { f.vjp_c(s); });

/// A functor without formulas has the gradient zero: no tensor flows back.
template <class F>
void pointwise_vjp(Vjp& vjp, const F& functor) {
  if constexpr (HasVjp<F, 0>) pointwise_vjp_of<F, 0>(vjp, functor);
  if constexpr (HasVjp<F, 1>) pointwise_vjp_of<F, 1>(vjp, functor);
  if constexpr (HasVjp<F, 2>) pointwise_vjp_of<F, 2>(vjp, functor);
}

}  // namespace detail

template <class F>
consteval DTypeSet accepted_dtypes() {
  return kRealDTypes | (F::complex ? kComplexDTypes : 0) |
         (F::float8 ? set_of(kFloat8E4M3) | set_of(kFloat8E5M2) : 0);
}

template <class F>
consteval OpDef<F> define_pointwise() {
  return define(Op<F>{
      .name = F::name,
      .infer =
          [](Infer& infer, const F&) {
            infer.expect_inputs(F::arity);
            infer_pointwise(infer, F::types, F::condition_first, F::real_result);
          },
      .vjp = detail::pointwise_vjp<F>,
      .saves = {detail::slots(F::saves_a), detail::slots(F::saves_b), detail::slots(F::saves_c)},
      .pointwise = true,
      .cpu_scalars = true,
      .accepts = accepted_dtypes<F>(),
  });
}

template <class F, int I>
consteval OpDef<functors::Backward<F, I>> define_pointwise_backward(std::string_view name) {
  using B = functors::Backward<F, I>;
  return define(Op<B>{
      .name = name,
      .infer =
          [](Infer& infer, const B&) {
            infer.expect_inputs(B::arity);
            infer_pointwise(infer, B::types, false, false);
          },
      .reference =
          [](Args in, const B& backward) {
            Tensor operands[B::arity];
            for (int i = 0; i < B::arity; ++i)
              operands[i] = unwrap_number(*in[static_cast<size_t>(i)]);
            Tensors result;
            result.push_back(B::gradient(backward.functor, B::unpack(operands)));
            return result;
          },
      .gradient = Gradient::by_reference,
      .pointwise = true,
      .cpu_scalars = true,
      .accepts = accepted_dtypes<B>(),
  });
}

}  // namespace tensora

#pragma once

// Internal header: how a functor becomes an op.

#include "tensora/dispatch/op.h"
#include "tensora/ops/pointwise/pointwise.h"

namespace tensora {

/// The typing and the shape rule that all pointwise ops share.
void infer_pointwise(Infer& infer, functors::Types types, bool condition_first, bool real_result);

/// The factor of a sum must be an element of its dtype: 1.5 is no factor for integers.
void check_alpha(const Infer& infer, Scalar alpha);
void check_bounds(const Infer& infer, Scalar min_val, Scalar max_val);

/// A number that was saved for a gradient, as a tensor that keeps its precision in expressions.
Tensor unwrap_number(const Tensor& operand);

/// What functors write as one_minus(x); see base/complex_math.h.
Tensor one_minus(const Tensor& x);

/// The dtype to which operands are promoted, by PyTorch's rules: tensors with dims take precedence
/// over 0-dim tensors, and those over plain numbers, unless the latter are of a higher category.
DType result_type(Args inputs);

namespace detail {

constexpr Slots slots(unsigned saves) {
  return (saves & functors::kA ? in(0) : Slots{}) | (saves & functors::kB ? in(1) : Slots{}) |
         (saves & functors::kC ? in(2) : Slots{}) | (saves & functors::kY ? out(0) : Slots{});
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

/// A functor without gradient formulas has the gradient zero: nothing is propagated.
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
         (F::chooses ? set_of(kFloat8E4M3) | set_of(kFloat8E5M2) : 0) |
         (F::chooses || F::wraps ? set_of(kUInt16) | set_of(kUInt32) | set_of(kUInt64) : 0);
}

/// The op of a functor; `operands` are the names of its formula's parameters.
template <class F>
consteval OpDef<F> define_pointwise(InputNames operands) {
  return define(Op<F>{
      .name = F::name,
      .inputs = operands,
      .primitive = true,
      .infer =
          [](Infer& infer, const F& functor) {
            infer_pointwise(infer, F::types, F::condition_first, F::real_result);
            if constexpr (F::arity == 2 && requires { functor.alpha; })
              check_alpha(infer, functor.alpha);
            if constexpr (requires { functor.min_val, functor.max_val; })
              check_bounds(infer, functor.min_val, functor.max_val);
          },
      .vjp = detail::pointwise_vjp<F>,
      .saves = {detail::slots(F::saves_a), detail::slots(F::saves_b), detail::slots(F::saves_c)},
      .autocast = {Autocast::as_is, F::full_on_gpu ? Autocast::full : Autocast::as_is},
      .pointwise = true,
      .cpu_scalars = true,
      .accepts = accepted_dtypes<F>(),
  });
}

template <class F, int I>
consteval OpDef<functors::Backward<F, I>> define_pointwise_backward(std::string_view name,
                                                                    InputNames operands) {
  using B = functors::Backward<F, I>;
  InputNames inputs{"grad"};
  for (int i = 0; i < 3; ++i)
    if (B::saves >> i & 1) inputs.add(operands[static_cast<size_t>(i)]);
  if (B::saves & functors::kY) inputs.add("result");
  return define(Op<B>{
      .name = name,
      .inputs = inputs,
      .internal = true,
      .infer = [](Infer& infer, const B&) { infer_pointwise(infer, B::types, false, false); },
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

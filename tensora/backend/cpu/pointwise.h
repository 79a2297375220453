#pragma once

// The CPU's pointwise loop. Everything that depends on a functor is one small vectorised function
// per compute type (`tile`); strides, broadcasting, dtypes and threads are handled around it, once,
// in pointwise_isa.cpp.

#include <cstdint>
#include <type_traits>
#include <utility>

#include "tensora/backend/cpu/blocks.h"
#include "tensora/core/functor.h"
#include "tensora/core/kernel.h"

namespace tensora::cpu::TENSORA_ISA {

/// out[i] = functor(in[0][i], in[1][i], …) for i < n; all contiguous arrays of one compute type.
using TileFn = void (*)(const void* functor, int64_t n, void* out, const void* const* in);

/// A functor's tiles. Narrow dtypes are computed in a wider one, as PyTorch's rules allow: f16 and
/// bf16 in float, bool and integers up to 32 bits in int32 (which wraps to the same bits).
struct Tiles {
  TileFn f32 = nullptr, f64 = nullptr, i32 = nullptr, i64 = nullptr, c64 = nullptr, c128 = nullptr;
  BlockFn f32_blocks = nullptr, bf16_blocks = nullptr;  // see Note [Blocks]
};

void run_pointwise(const KernelContext& context, const Tiles& tiles, const void* functor);

/// A functor's formula serves every device. Where the CPU has a faster one for floats, this is
/// specialised for the functor, with a function `forward` (ops/pointwise/cpu_formulas.h).
template <class F>
struct CpuFormula {};

template <class F>
inline constexpr bool has_cpu_formula = requires { &CpuFormula<F>::forward; };

template <class F, class C, class... Operands>
inline C value_of(const F& functor, C first, Operands... others) {
  if constexpr (std::is_same_v<C, float> && has_cpu_formula<F>)
    return CpuFormula<F>::forward(first, others...);
  else
    return functor.forward(first, others...);
}

template <class F, class C, std::size_t... I>
void tile_loop(const F& functor, int64_t n, C* out, const void* const* in,
               std::index_sequence<I...>) {
  const C* const operands[] = {static_cast<const C*>(in[I])...};
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = value_of(functor, operands[I][i]...);
}

// A zero among the divisors of integers; the processor would trap. See Note [Integer division].
template <class C>
void refuse_zero(const char* op, int64_t n, const void* divisors) {
  const C* const values = static_cast<const C*>(divisors);
  bool found = false;
#pragma omp simd reduction(| : found)
  for (int64_t i = 0; i < n; ++i) found |= values[i] == 0;
  check(!found, op, ": integers cannot be divided by zero (ZeroDivisionError)");
}

template <class F, class C>
void tile(const void* functor, int64_t n, void* out, const void* const* in) {
  if constexpr (F::divides && std::is_integral_v<C>) refuse_zero<C>(F::name, n, in[1]);
  const F local = *static_cast<const F*>(functor);  // a copy the compiler knows not to alias `out`
  tile_loop<F, C>(local, n, static_cast<C*>(out), in, std::make_index_sequence<F::arity>());
}

#if defined(__AVX2__)
template <class F, class T>
void blocks(const void* functor, int64_t n, void* out, const void* const* in, unsigned single,
            bool past_cache) {
  const F local = *static_cast<const F*>(functor);
  const auto value = [&](auto... operands) { return value_of(local, operands...); };
  block_loop(value, n, static_cast<T*>(out), in, single, past_cache,
             std::make_index_sequence<F::arity>());
}
#endif

template <class F>
constexpr Tiles tiles_of() {
  Tiles tiles;
#if defined(__AVX2__)
  if constexpr (functors::computes_floats(F::types) && F::types != functors::Types::predicate &&
                F::arity <= 2)
    tiles.bf16_blocks = blocks<F, BFloat16>;
  if constexpr (has_cpu_formula<F>) tiles.f32_blocks = blocks<F, float>;
#endif
  if constexpr (functors::computes_floats(F::types)) {
    tiles.f32 = tile<F, float>;
    tiles.f64 = tile<F, double>;
  }
  if constexpr (functors::computes_integers(F::types)) {
    tiles.i32 = tile<F, int32_t>;
    tiles.i64 = tile<F, int64_t>;
  }
  if constexpr (F::complex) {
    tiles.c64 = tile<F, Complex<float>>;
    tiles.c128 = tile<F, Complex<double>>;
  }
  return tiles;
}

template <class F>
void pointwise_kernel(const KernelContext& context, const F& functor) {
  static constexpr Tiles tiles = tiles_of<F>();
  run_pointwise(context, tiles, &functor);
}

}  // namespace tensora::cpu::TENSORA_ISA

#include "tensora/backend/cpu/chain.h"

#include <cstring>

#include "tensora/backend/cpu/bfloat16.h"
#include "tensora/backend/cpu/pointwise.h"
#include "tensora/backend/cpu/stream.h"
#include "tensora/ops/pointwise/all.h"
#include "tensora/ops/pointwise/all_backwards.h"
#include "tensora/ops/pointwise/cpu_formulas.h"

// The steps of Note [Chains]: for processors with AVX2 or AVX-512. Others run tiles.

namespace tensora::cpu::TENSORA_ISA {

#if defined(__AVX2__)
namespace {

#if defined(__AVX512F__)
using Vector [[gnu::vector_size(64)]] = float;
#else
using Vector [[gnu::vector_size(32)]] = float;
#endif
constexpr int kVectors = 4;
constexpr int64_t kStrip = kVectors * sizeof(Vector) / sizeof(float);

using Code = void (*)(const ChainStep* step, int64_t at, Vector a, Vector b, Vector c, Vector d);

/// The strip as an array: with its loops unrolled the compiler keeps it in registers.
struct alignas(64) Strip {
  float values[kStrip];

  Strip(Vector a, Vector b, Vector c, Vector d) {
    const Vector vectors[] = {a, b, c, d};
    std::memcpy(values, vectors, sizeof(values));
  }
  Vector vector(int i) const {
    Vector result;
    std::memcpy(&result, values + i * (kStrip / kVectors), sizeof(result));
    return result;
  }
};

inline float* operand(const ChainStep* step, int k, int64_t at) {
  return reinterpret_cast<float*>(step->memory[k] + (at & step->mask[k]));
}

[[gnu::always_inline]] inline void go_on(const ChainStep* step, int64_t at, const Strip& strip) {
  const ChainStep* const next = step + 1;
  reinterpret_cast<Code>(next->run)(next, at, strip.vector(0), strip.vector(1), strip.vector(2),
                                    strip.vector(3));
}

// Operand I of a functor at position i: the strip's own, or one in memory.
template <int kOwn, std::size_t I>
[[gnu::always_inline]] inline float pick(const float* strip, const float* const* memory, int i) {
  if constexpr (I == kOwn)
    return strip[i];
  else
    return memory[I < kOwn ? I : I - 1][i];
}

template <class F, int kOwn, std::size_t... I>
[[gnu::always_inline]] inline void compute(const F& functor, float* strip,
                                           const float* const* memory, std::index_sequence<I...>) {
#pragma omp simd
  for (int i = 0; i < kStrip; ++i) strip[i] = value_of(functor, pick<kOwn, I>(strip, memory, i)...);
}

template <class F, int kOwn>
void functor_step(const ChainStep* step, int64_t at, Vector a, Vector b, Vector c, Vector d) {
  Strip strip(a, b, c, d);
  const float* memory[kChainOperands];
  for (int k = 0; k + 1 < F::arity; ++k) memory[k] = operand(step, k, at);
  const F functor = *static_cast<const F*>(step->functor);
  compute<F, kOwn>(functor, strip.values, memory, std::make_index_sequence<F::arity>());
  go_on(step, at, strip);
}

// Without a Strip, which the compiler would copy to the stack.
inline Vector vector_at(const float* from, int i) {
  Vector result;
  std::memcpy(&result, from + i * (kStrip / kVectors), sizeof(result));
  return result;
}
inline void put_vector(float* to, int i, Vector vector) {
  std::memcpy(to + i * (kStrip / kVectors), &vector, sizeof(vector));
}
[[gnu::always_inline]] inline void go_on(const ChainStep* step, int64_t at, Vector a, Vector b,
                                         Vector c, Vector d) {
  const ChainStep* const next = step + 1;
  reinterpret_cast<Code>(next->run)(next, at, a, b, c, d);
}

void load_step(const ChainStep* step, int64_t at, Vector, Vector, Vector, Vector) {
  const float* const from = operand(step, 0, at);
  go_on(step, at, vector_at(from, 0), vector_at(from, 1), vector_at(from, 2), vector_at(from, 3));
}
void store_step(const ChainStep* step, int64_t at, Vector a, Vector b, Vector c, Vector d) {
  float* const to = operand(step, 0, at);
  put_vector(to, 0, a);
  put_vector(to, 1, b);
  put_vector(to, 2, c);
  put_vector(to, 3, d);
  go_on(step, at, a, b, c, d);
}
void stream_vector(float* to, Vector vector) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, vector);
#else
  _mm256_stream_ps(to, vector);
#endif
}
void stream_step(const ChainStep* step, int64_t at, Vector a, Vector b, Vector c, Vector d) {
  constexpr int64_t kWidth = kStrip / kVectors;
  float* const to = operand(step, 0, at);
  stream_vector(to, a);
  stream_vector(to + kWidth, b);
  stream_vector(to + 2 * kWidth, c);
  stream_vector(to + 3 * kWidth, d);
  go_on(step, at, a, b, c, d);
}

#if defined(__AVX512F__)
Vector rounded_to_bfloat16(Vector x) {
  return _mm512_castsi512_ps(_mm512_and_si512(encode_bfloat16(x), _mm512_set1_epi32(-0x10000)));
}
Vector rounded_to_float16(Vector x) {
  return _mm512_maskz_cvtph_ps(kAllLanes,
                               _mm512_maskz_cvtps_ph(kAllLanes, x, _MM_FROUND_TO_NEAREST_INT));
}
#else
Vector rounded_to_bfloat16(Vector x) {
  return _mm256_castsi256_ps(_mm256_and_si256(encode_bfloat16(x), _mm256_set1_epi32(-0x10000)));
}
Vector rounded_to_float16(Vector x) {
  return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
#endif
template <Vector (*round)(Vector)>
void round_step(const ChainStep* step, int64_t at, Vector a, Vector b, Vector c, Vector d) {
  go_on(step, at, round(a), round(b), round(c), round(d));
}

void end_step(const ChainStep*, int64_t, Vector, Vector, Vector, Vector) {}

void run_chain(const ChainStep* first, int64_t strips) {
  const Vector none = {};
  for (int64_t i = 0; i < strips; ++i)
    reinterpret_cast<Code>(first->run)(first, i * kStrip * int64_t{sizeof(float)}, none, none, none,
                                       none);
}

ChainCode code(Code function) { return reinterpret_cast<ChainCode>(function); }

template <class F>
inline constexpr bool has_steps =
    functors::computes_floats(F::types) && !F::divides && F::arity <= kChainOperands + 1;

template <class F>
void set_steps() {
  const void* const op = &pointwise_op<F>();
  set_chain_step(op, 0, code(functor_step<F, 0>));
  if constexpr (F::arity > 1) set_chain_step(op, 1, code(functor_step<F, 1>));
  if constexpr (F::arity > 2) set_chain_step(op, 2, code(functor_step<F, 2>));
}

ChainLoad load_of(DType dtype) {
  return dtype == DType::bfloat16 ? load_bfloat16 : load_fn<float>(dtype);
}
ChainStore store_of(DType dtype) {
  return dtype == DType::bfloat16 ? store_bfloat16 : store_fn<float>(dtype);
}

}  // namespace

void register_chain_cpu() {
  set_chain_functions({.strip = kStrip,
                       .load = code(load_step),
                       .store = code(store_step),
                       .stream = code(stream_step),
                       .round_bfloat16 = code(round_step<rounded_to_bfloat16>),
                       .round_float16 = code(round_step<rounded_to_float16>),
                       .end = code(end_step),
                       .run = run_chain,
                       .finish_streaming = finish_streaming,
                       .load_of = load_of,
                       .store_of = store_of});
  for_each_functor([]<class F>() {
    if constexpr (has_steps<F>) set_steps<F>();
  });
  // A gradient's first operand comes from the ops behind it; the others were saved.
  for_each_backward([]<class B>() {
    if constexpr (B::arity <= kChainOperands + 1)
      set_chain_step(&pointwise_op<B>(), 0, code(functor_step<B, 0>));
  });
}
#else
void register_chain_cpu() {}
#endif

}  // namespace tensora::cpu::TENSORA_ISA

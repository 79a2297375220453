#include "tensora/backend/cpu/chain.h"

#include <cstring>

#include "tensora/backend/cpu/bfloat16.h"
#include "tensora/backend/cpu/pointwise.h"
#include "tensora/backend/cpu/stream.h"
#include "tensora/backend/cpu/transpose.h"
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

// A 16-bit operand in memory: its elements lie half as far apart.
inline uint16_t* narrow_operand(const ChainStep* step, int64_t at) {
  return reinterpret_cast<uint16_t*>(step->memory[0] + ((at >> 1) & step->mask[0]));
}

#if defined(__AVX512F__)
// The compiler would make each constant anew from a general register in every step, which costs
// more than the arithmetic. It does not see where these come from, and broadcasts them from memory.
struct RoundingConstants {
  int odd = 0x10000, half = 0x7fff, one = 1, upper = -0x10000;
};
constexpr RoundingConstants kRounding;
inline const RoundingConstants& rounding_constants() {
  const RoundingConstants* from = &kRounding;
  asm("" : "+r"(from));
  return *from;
}
// As encode_bfloat16, but for numbers alone: the upper halves of the result are the bfloat16s.
inline __m512i encode_numbers(Vector x) {
  const RoundingConstants& c = rounding_constants();
  const __m512i raw = _mm512_castps_si512(x);
  const __mmask16 odd = _mm512_test_epi32_mask(raw, _mm512_set1_epi32(c.odd));
  const __m512i half = _mm512_add_epi32(raw, _mm512_set1_epi32(c.half));
  return _mm512_mask_add_epi32(half, odd, half, _mm512_set1_epi32(c.one));
}
inline bool any_nan(Vector a, Vector b, Vector c, Vector d) {
  return (_mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) | _mm512_cmp_ps_mask(c, d, _CMP_UNORD_Q)) != 0;
}
inline Vector upper_halves(__m512i encoded) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(encoded, _mm512_set1_epi32(rounding_constants().upper)));
}
[[gnu::always_inline]] inline Vector round_number(Vector x) {
  return upper_halves(encode_numbers(x));
}
[[gnu::always_inline]] inline Vector round_any(Vector x) {
  return upper_halves(encode_bfloat16(x));
}
inline void put_upper_halves(uint16_t* to, __m512i low, __m512i high) {
  alignas(64) static constexpr uint16_t kUpperHalves[32] = {
      1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
      33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(low, _mm512_load_si512(kUpperHalves), high));
}
Vector rounded_to_float16(Vector x) {
  return _mm512_maskz_cvtph_ps(kAllLanes,
                               _mm512_maskz_cvtps_ph(kAllLanes, x, _MM_FROUND_TO_NEAREST_INT));
}
Vector from_bfloat16(const uint16_t* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(
      _mm512_maskz_slli_epi32(kAllLanes, _mm512_maskz_cvtepu16_epi32(kAllLanes, bits), 16));
}
Vector from_float16(const uint16_t* from) {
  return _mm512_maskz_cvtph_ps(kAllLanes,
                               _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
void to_bfloat16(uint16_t* to, Vector a, Vector b) {
  put_upper_halves(to, encode_bfloat16(a), encode_bfloat16(b));
}
void numbers_to_bfloat16(uint16_t* to, Vector a, Vector b) {
  put_upper_halves(to, encode_numbers(a), encode_numbers(b));
}
void to_float16(uint16_t* to, Vector x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_maskz_cvtps_ph(kAllLanes, x, _MM_FROUND_TO_NEAREST_INT));
}
#else
inline bool any_nan(Vector a, Vector b, Vector c, Vector d) {
  return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q),
                                         _mm256_cmp_ps(c, d, _CMP_UNORD_Q))) != 0;
}
inline Vector upper_halves(__m256i encoded) {
  return _mm256_castsi256_ps(_mm256_and_si256(encoded, _mm256_set1_epi32(-0x10000)));
}
[[gnu::always_inline]] inline Vector round_number(Vector x) {
  const __m256i raw = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(raw, 16), _mm256_set1_epi32(1));
  return upper_halves(_mm256_add_epi32(_mm256_add_epi32(raw, _mm256_set1_epi32(0x7fff)), odd));
}
[[gnu::always_inline]] inline Vector round_any(Vector x) {
  return upper_halves(encode_bfloat16(x));
}
Vector rounded_to_float16(Vector x) {
  return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
Vector from_bfloat16(const uint16_t* from) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
Vector from_float16(const uint16_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline void put_upper_halves(uint16_t* to, __m256i low, __m256i high) {
  const __m256i lanes =
      _mm256_packus_epi32(_mm256_srli_epi32(low, 16), _mm256_srli_epi32(high, 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(lanes, 0xd8));
}
void to_bfloat16(uint16_t* to, Vector a, Vector b) {
  put_upper_halves(to, encode_bfloat16(a), encode_bfloat16(b));
}
void numbers_to_bfloat16(uint16_t* to, Vector a, Vector b) {
  put_upper_halves(to, _mm256_castps_si256(round_number(a)), _mm256_castps_si256(round_number(b)));
}
void to_float16(uint16_t* to, Vector x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
#endif
template <Vector (*from)(const uint16_t*)>
void load_narrow_step(const ChainStep* step, int64_t at, Vector, Vector, Vector, Vector) {
  constexpr int64_t kWidth = kStrip / kVectors;
  const uint16_t* const source = narrow_operand(step, at);
  __builtin_prefetch(source + kAhead);
  go_on(step, at, from(source), from(source + kWidth), from(source + 2 * kWidth),
        from(source + 3 * kWidth));
}
void store_float16_step(const ChainStep* step, int64_t at, Vector a, Vector b, Vector c, Vector d) {
  constexpr int64_t kWidth = kStrip / kVectors;
  uint16_t* const target = narrow_operand(step, at);
  to_float16(target, a);
  to_float16(target + kWidth, b);
  to_float16(target + 2 * kWidth, c);
  to_float16(target + 3 * kWidth, d);
  go_on(step, at, a, b, c, d);
}
// NaNs are rare, and rounding numbers alone is cheaper.
void store_bfloat16_step(const ChainStep* step, int64_t at, Vector a, Vector b, Vector c,
                         Vector d) {
  uint16_t* const target = narrow_operand(step, at);
  if (any_nan(a, b, c, d)) [[unlikely]] {
    to_bfloat16(target, a, b);
    to_bfloat16(target + kStrip / 2, c, d);
  } else {
    numbers_to_bfloat16(target, a, b);
    numbers_to_bfloat16(target + kStrip / 2, c, d);
  }
  go_on(step, at, a, b, c, d);
}
void round_bfloat16_step(const ChainStep* step, int64_t at, Vector a, Vector b, Vector c,
                         Vector d) {
  if (any_nan(a, b, c, d)) [[unlikely]]
    return go_on(step, at, round_any(a), round_any(b), round_any(c), round_any(d));
  go_on(step, at, round_number(a), round_number(b), round_number(c), round_number(d));
}
#if defined(__AVX512F__)
// With AVX-512 VNNI. An instruction adds the products of the 16-bit halves of two operands to a
// number: of its lowest bit that stays and 1, and of 1 and 0x7fff. So a sum that rounds takes two
// instructions, neither of which makes a mask.
struct PairConstants {
  int odd = 0x10000, one = 1, factors = 0x17fff;
};
constexpr PairConstants kPairs;
[[gnu::target("avx512vnni")]] inline __m512i encode_numbers_by_pairs(Vector x) {
  const PairConstants* c = &kPairs;
  asm("" : "+r"(c));
  constexpr int kAndOr = 0xea;  // (raw & odd) | one
  const __m512i raw = _mm512_castps_si512(x);
  const __m512i halves =
      _mm512_ternarylogic_epi32(raw, _mm512_set1_epi32(c->odd), _mm512_set1_epi32(c->one), kAndOr);
  return _mm512_dpwssd_epi32(raw, halves, _mm512_set1_epi32(c->factors));
}
[[gnu::target("avx512vnni")]] void round_bfloat16_by_pairs_step(const ChainStep* step, int64_t at,
                                                                Vector a, Vector b, Vector c,
                                                                Vector d) {
  if (any_nan(a, b, c, d)) [[unlikely]]
    return go_on(step, at, round_any(a), round_any(b), round_any(c), round_any(d));
  go_on(step, at, upper_halves(encode_numbers_by_pairs(a)),
        upper_halves(encode_numbers_by_pairs(b)), upper_halves(encode_numbers_by_pairs(c)),
        upper_halves(encode_numbers_by_pairs(d)));
}
[[gnu::target("avx512vnni")]] void store_bfloat16_by_pairs_step(const ChainStep* step, int64_t at,
                                                                Vector a, Vector b, Vector c,
                                                                Vector d) {
  uint16_t* const target = narrow_operand(step, at);
  if (any_nan(a, b, c, d)) [[unlikely]] {
    to_bfloat16(target, a, b);
    to_bfloat16(target + kStrip / 2, c, d);
  } else {
    put_upper_halves(target, encode_numbers_by_pairs(a), encode_numbers_by_pairs(b));
    put_upper_halves(target + kStrip / 2, encode_numbers_by_pairs(c), encode_numbers_by_pairs(d));
  }
  go_on(step, at, a, b, c, d);
}
bool has_pairs() { return __builtin_cpu_supports("avx512vnni"); }
#else
constexpr Code round_bfloat16_by_pairs_step = round_bfloat16_step;
constexpr Code store_bfloat16_by_pairs_step = store_bfloat16_step;
bool has_pairs() { return false; }
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

// Functors whose result is one of their operands, or its absolute value.
template <class F>
inline constexpr bool returns_operand =
    std::is_same_v<F, functors::Relu> || std::is_same_v<F, functors::Abs> ||
    std::is_same_v<F, functors::Maximum> || std::is_same_v<F, functors::Minimum> ||
    std::is_same_v<F, functors::Where>;

template <class F>
void set_steps() {
  const void* const op = &pointwise_op<F>();
  if constexpr (returns_operand<F>) set_chain_step_is_exact(op);
  set_chain_step(op, 0, code(functor_step<F, 0>));
  if constexpr (F::arity > 1) set_chain_step(op, 1, code(functor_step<F, 1>));
  if constexpr (F::arity > 2) set_chain_step(op, 2, code(functor_step<F, 2>));
}

ChainCode load_narrow(DType dtype) {
  return dtype == DType::bfloat16  ? code(load_narrow_step<from_bfloat16>)
         : dtype == DType::float16 ? code(load_narrow_step<from_float16>)
                                   : nullptr;
}
ChainCode store_narrow(DType dtype) {
  static const bool pairs = has_pairs();
  return dtype == DType::bfloat16 ? code(pairs ? store_bfloat16_by_pairs_step : store_bfloat16_step)
         : dtype == DType::float16 ? code(store_float16_step)
                                   : nullptr;
}
// All rows of some columns at a time: with a stride of a power of two, few columns fit into the
// cache. The next panel lies behind this one in every column: it is asked for while this one is
// transposed, because the processor does not foresee runs that are so short.
template <class T>
void transpose_as(const void* source, int64_t stride, int64_t rows, int64_t columns, void* target,
                  int64_t width) {
  constexpr int64_t side = kBlockSide<T>;
  const T* const from = static_cast<const T*>(source);
  T* const to = static_cast<T*>(target);
  for (int64_t c = 0; c < columns; c += side)
    for (int64_t r = 0; r < rows; r += side) {
      const T* const block = from + c * stride + r;
      if (r + side > rows || c + side > columns) {
        transpose_elements(block, stride, to + r * width + c, width, std::min(side, rows - r),
                           std::min(side, columns - c));
        continue;
      }
      for (int64_t i = 0; i < side; ++i) __builtin_prefetch(block + i * stride + rows, 0, 2);
      transpose_block(block, stride, to + r * width + c, width);
    }
}
void transpose(int64_t bytes, const void* from, int64_t stride, int64_t rows, int64_t columns,
               void* to, int64_t width) {
  const auto run = bytes == 1   ? transpose_as<uint8_t>
                   : bytes == 2 ? transpose_as<uint16_t>
                   : bytes == 4 ? transpose_as<uint32_t>
                                : transpose_as<uint64_t>;
  run(from, stride, rows, columns, to, width);
}
ChainLoad load_of(DType dtype) {
  return dtype == DType::bfloat16 ? load_bfloat16 : load_fn<float>(dtype);
}
ChainStore store_of(DType dtype) {
  return dtype == DType::bfloat16 ? store_bfloat16 : store_fn<float>(dtype);
}

}  // namespace

void register_chain_cpu() {
  set_chain_functions(
      {.strip = kStrip,
       .load = code(load_step),
       .store = code(store_step),
       .stream = code(stream_step),
       .load_narrow = load_narrow,
       .store_narrow = store_narrow,
       .round_bfloat16 = code(has_pairs() ? round_bfloat16_by_pairs_step : round_bfloat16_step),
       .round_float16 = code(round_step<rounded_to_float16>),
       .end = code(end_step),
       .run = run_chain,
       .finish_streaming = finish_streaming,
       .transpose = transpose,
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

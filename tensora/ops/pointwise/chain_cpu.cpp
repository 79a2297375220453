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
// As many as calls pass in registers: the jump from step to step costs more than the arithmetic of
// a vector.
constexpr int kVectors = 8;
constexpr int64_t kWidth = sizeof(Vector) / sizeof(float), kStrip = kVectors * kWidth;
using Each = std::make_index_sequence<kVectors>;
constexpr Each kEach;
constexpr std::make_index_sequence<kVectors / 2> kEachPair;

using Code = void (*)(const ChainStep* step, int64_t at, Vector a, Vector b, Vector c, Vector d,
                      Vector e, Vector f, Vector g, Vector h);

inline float* operand(const ChainStep* step, int k, int64_t at) {
  return reinterpret_cast<float*>(step->memory[k] + (at & step->mask[k]));
}

[[gnu::always_inline]] inline void go_on(const ChainStep* step, int64_t at,
                                         const Vector (&v)[kVectors]) {
  const ChainStep* const next = step + 1;
  reinterpret_cast<Code>(next->run)(next, at, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
}

/// A step whose body changes the strip.
template <void (*body)(const ChainStep*, int64_t, Vector (&)[kVectors], Each)>
void step_of(const ChainStep* step, int64_t at, Vector a, Vector b, Vector c, Vector d, Vector e,
             Vector f, Vector g, Vector h) {
  Vector strip[kVectors] = {a, b, c, d, e, f, g, h};
  body(step, at, strip, kEach);
  go_on(step, at, strip);
}

// Operand I of a functor at position i: the strip's own, or one in memory.
template <int kOwn, std::size_t I>
[[gnu::always_inline]] inline float pick(const float* strip, const float* const* memory, int i) {
  if constexpr (I == kOwn)
    return strip[i];
  else
    return memory[I < kOwn ? I : I - 1][i];
}

/// Functors of an instruction or two. Their loops are unrolled, and the strip stays in registers.
template <class F, class... Known>
inline constexpr bool is_one_of = (std::is_same_v<F, Known> || ...);
template <class F>
inline constexpr bool is_cheap =
    is_one_of<F, functors::Add, functors::Sub, functors::Mul, functors::Div, functors::Neg,
              functors::Relu, functors::Abs, functors::Maximum, functors::Minimum, functors::Where,
              functors::Square, functors::MaskedFill, functors::ClampMin, functors::ClampMax,
              functors::Backward<functors::Relu, 0>>;

/// Much code for functors that are rare: they run on tiles.
template <class F>
inline constexpr bool is_left_to_tiles =
    is_one_of<F, functors::Polygamma, functors::Backward<functors::Polygamma, 0>,
              functors::Backward<functors::Digamma, 0>>;

// What costs more has its code once, in a loop over vectors.
template <class F, int kOwn, std::size_t... I>
[[gnu::always_inline]] inline void compute(const F& functor, float* strip,
                                           const float* const* memory, std::index_sequence<I...>) {
  constexpr int at_once = is_cheap<F> ? kStrip : kWidth;
#pragma GCC unroll 1
  for (int start = 0; start < kStrip; start += at_once) {
#pragma omp simd
    for (int i = start; i < start + at_once; ++i)
      strip[i] = value_of(functor, pick<kOwn, I>(strip, memory, i)...);
  }
}

template <class F, int kOwn>
void functor_step(const ChainStep* step, int64_t at, Vector a, Vector b, Vector c, Vector d,
                  Vector e, Vector f, Vector g, Vector h) {
  Vector vectors[kVectors] = {a, b, c, d, e, f, g, h};
  alignas(64) float strip[kStrip];
  std::memcpy(strip, vectors, sizeof(strip));
  const float* memory[kChainOperands];
  for (int k = 0; k + 1 < F::arity; ++k) memory[k] = operand(step, k, at);
  const F functor = *static_cast<const F*>(step->functor);
  compute<F, kOwn>(functor, strip, memory, std::make_index_sequence<F::arity>());
  std::memcpy(vectors, strip, sizeof(strip));
  go_on(step, at, vectors);
}

[[gnu::always_inline]] inline Vector vector_at(const float* from, size_t i) {
  Vector result;
  std::memcpy(&result, from + static_cast<int64_t>(i) * kWidth, sizeof(result));
  return result;
}
[[gnu::always_inline]] inline void put_vector(float* to, size_t i, Vector vector) {
  std::memcpy(to + static_cast<int64_t>(i) * kWidth, &vector, sizeof(vector));
}

template <size_t... i>
[[gnu::always_inline]] inline void load_strip(const ChainStep* step, int64_t at,
                                              Vector (&v)[kVectors], std::index_sequence<i...>) {
  const float* const from = operand(step, 0, at);
  ((v[i] = vector_at(from, i)), ...);
}
template <size_t... i>
[[gnu::always_inline]] inline void store_strip(const ChainStep* step, int64_t at,
                                               Vector (&v)[kVectors], std::index_sequence<i...>) {
  float* const to = operand(step, 0, at);
  (put_vector(to, i, v[i]), ...);
}
[[gnu::always_inline]] inline void stream_vector(float* to, Vector vector) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, vector);
#else
  _mm256_stream_ps(to, vector);
#endif
}
template <size_t... i>
[[gnu::always_inline]] inline void stream_strip(const ChainStep* step, int64_t at,
                                                Vector (&v)[kVectors], std::index_sequence<i...>) {
  float* const to = operand(step, 0, at);
  (stream_vector(to + static_cast<int64_t>(i) * kWidth, v[i]), ...);
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
template <size_t... i>
[[gnu::always_inline]] inline bool any_nan(const Vector (&v)[kVectors], std::index_sequence<i...>) {
  return (_mm512_cmp_ps_mask(v[2 * i], v[2 * i + 1], _CMP_UNORD_Q) | ...) != 0;
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
template <size_t... i>
[[gnu::always_inline]] inline bool any_nan(const Vector (&v)[kVectors], std::index_sequence<i...>) {
  const __m256 found[] = {_mm256_cmp_ps(v[2 * i], v[2 * i + 1], _CMP_UNORD_Q)...};
  return _mm256_movemask_ps(
             _mm256_or_ps(_mm256_or_ps(found[0], found[1]), _mm256_or_ps(found[2], found[3]))) != 0;
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
template <Vector (*from)(const uint16_t*), size_t... i>
[[gnu::always_inline]] inline void load_narrow_strip(const ChainStep* step, int64_t at,
                                                     Vector (&v)[kVectors],
                                                     std::index_sequence<i...>) {
  const uint16_t* const source = narrow_operand(step, at);
  __builtin_prefetch(source + kAhead);
  ((v[i] = from(source + static_cast<int64_t>(i) * kWidth)), ...);
}
template <size_t... i>
[[gnu::always_inline]] inline void store_float16_strip(const ChainStep* step, int64_t at,
                                                       Vector (&v)[kVectors],
                                                       std::index_sequence<i...>) {
  uint16_t* const target = narrow_operand(step, at);
  (to_float16(target + static_cast<int64_t>(i) * kWidth, v[i]), ...);
}
template <void (*put)(uint16_t*, Vector, Vector), size_t... i>
[[gnu::always_inline]] inline void put_pairs(uint16_t* target, const Vector (&v)[kVectors],
                                             std::index_sequence<i...>) {
  (put(target + static_cast<int64_t>(i) * 2 * kWidth, v[2 * i], v[2 * i + 1]), ...);
}
// NaNs are rare, and rounding numbers alone is cheaper.
template <size_t... i>
[[gnu::always_inline]] inline void store_bfloat16_strip(const ChainStep* step, int64_t at,
                                                        Vector (&v)[kVectors],
                                                        std::index_sequence<i...>) {
  uint16_t* const target = narrow_operand(step, at);
  if (any_nan(v, kEachPair)) [[unlikely]]
    put_pairs<to_bfloat16>(target, v, kEachPair);
  else
    put_pairs<numbers_to_bfloat16>(target, v, kEachPair);
}
template <Vector (*round)(Vector), size_t... i>
[[gnu::always_inline]] inline void round_strip(const ChainStep*, int64_t, Vector (&v)[kVectors],
                                               std::index_sequence<i...>) {
  ((v[i] = round(v[i])), ...);
}
template <size_t... i>
[[gnu::always_inline]] inline void round_bfloat16_strip(const ChainStep* step, int64_t at,
                                                        Vector (&v)[kVectors],
                                                        std::index_sequence<i...> each) {
  if (any_nan(v, kEachPair)) [[unlikely]]
    round_strip<round_any>(step, at, v, each);
  else
    round_strip<round_number>(step, at, v, each);
}
constexpr Code round_bfloat16_step = step_of<round_bfloat16_strip>;
constexpr Code store_bfloat16_step = step_of<store_bfloat16_strip>;
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
template <size_t... i>
[[gnu::target("avx512vnni"), gnu::always_inline]] inline void round_by_pairs(
    Vector (&v)[kVectors], std::index_sequence<i...>) {
  ((v[i] = upper_halves(encode_numbers_by_pairs(v[i]))), ...);
}
template <size_t... i>
[[gnu::target("avx512vnni"), gnu::always_inline]] inline void put_by_pairs(
    uint16_t* target, const Vector (&v)[kVectors], std::index_sequence<i...>) {
  (put_upper_halves(target + static_cast<int64_t>(i) * 2 * kWidth,
                    encode_numbers_by_pairs(v[2 * i]), encode_numbers_by_pairs(v[2 * i + 1])),
   ...);
}
[[gnu::target("avx512vnni")]] void round_bfloat16_by_pairs_step(const ChainStep* step, int64_t at,
                                                                Vector a, Vector b, Vector c,
                                                                Vector d, Vector e, Vector f,
                                                                Vector g, Vector h) {
  Vector v[kVectors] = {a, b, c, d, e, f, g, h};
  if (any_nan(v, kEachPair)) [[unlikely]]
    round_strip<round_any>(step, at, v, kEach);
  else
    round_by_pairs(v, kEach);
  go_on(step, at, v);
}
[[gnu::target("avx512vnni")]] void store_bfloat16_by_pairs_step(const ChainStep* step, int64_t at,
                                                                Vector a, Vector b, Vector c,
                                                                Vector d, Vector e, Vector f,
                                                                Vector g, Vector h) {
  const Vector v[kVectors] = {a, b, c, d, e, f, g, h};
  uint16_t* const target = narrow_operand(step, at);
  if (any_nan(v, kEachPair)) [[unlikely]]
    put_pairs<to_bfloat16>(target, v, kEachPair);
  else
    put_by_pairs(target, v, kEachPair);
  go_on(step, at, v);
}
bool has_pairs() { return __builtin_cpu_supports("avx512vnni"); }
#else
constexpr Code round_bfloat16_by_pairs_step = round_bfloat16_step;
constexpr Code store_bfloat16_by_pairs_step = store_bfloat16_step;
bool has_pairs() { return false; }
#endif
// Sums and differences without a factor, which every strip would convert and multiply by.
template <bool minus, int kOwn>
inline Vector plain_sum(Vector own, Vector other) {
  if constexpr (!minus) return own + other;
  return kOwn == 0 ? own - other : other - own;
}
template <bool minus, int kOwn, size_t... i>
[[gnu::always_inline]] inline void plain_sum_strip(const ChainStep* step, int64_t at,
                                                   Vector (&v)[kVectors],
                                                   std::index_sequence<i...>) {
  const float* const other = operand(step, 0, at);
  ((v[i] = plain_sum<minus, kOwn>(v[i], vector_at(other, i))), ...);
}

void end_step(const ChainStep*, int64_t, Vector, Vector, Vector, Vector, Vector, Vector, Vector,
              Vector) {}

void run_chain(const ChainStep* first, int64_t strips) {
  const Vector none = {};
  for (int64_t i = 0; i < strips; ++i)
    reinterpret_cast<Code>(first->run)(first, i * kStrip * int64_t{sizeof(float)}, none, none, none,
                                       none, none, none, none, none);
}

ChainCode code(Code function) { return reinterpret_cast<ChainCode>(function); }

template <class F>
inline constexpr bool has_steps = functors::computes_floats(F::types) && !F::divides &&
                                  F::arity <= kChainOperands + 1 && !is_left_to_tiles<F>;

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
  // The others find their further operands in memory: a store costs little beside them.
  if constexpr (F::arity > 1 && is_cheap<F>) set_chain_step(op, 1, code(functor_step<F, 1>));
  if constexpr (F::arity > 2 && is_cheap<F>) set_chain_step(op, 2, code(functor_step<F, 2>));
}

template <class F, bool minus>
ChainCode without_factor(ChainCode given, const void* functor) {
  const bool first = given == code(functor_step<F, 0>), second = given == code(functor_step<F, 1>);
  if (!(first || second) || !(static_cast<const F*>(functor)->alpha == 1)) return given;
  return first ? code(step_of<plain_sum_strip<minus, 0>>)
               : code(step_of<plain_sum_strip<minus, 1>>);
}
ChainCode code_for(ChainCode given, const void* functor) {
  const ChainCode found = without_factor<functors::Add, false>(given, functor);
  return found == given ? without_factor<functors::Sub, true>(given, functor) : found;
}

ChainCode load_narrow(DType dtype) {
  return dtype == DType::bfloat16  ? code(step_of<load_narrow_strip<from_bfloat16>>)
         : dtype == DType::float16 ? code(step_of<load_narrow_strip<from_float16>>)
                                   : nullptr;
}
ChainCode store_narrow(DType dtype) {
  static const bool pairs = has_pairs();
  return dtype == DType::bfloat16 ? code(pairs ? store_bfloat16_by_pairs_step : store_bfloat16_step)
         : dtype == DType::float16 ? code(step_of<store_float16_strip>)
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
       .load = code(step_of<load_strip>),
       .store = code(step_of<store_strip>),
       .stream = code(step_of<stream_strip>),
       .code_for = code_for,
       .load_narrow = load_narrow,
       .store_narrow = store_narrow,
       .round_bfloat16 = code(has_pairs() ? round_bfloat16_by_pairs_step : round_bfloat16_step),
       .round_float16 = code(step_of<round_strip<rounded_to_float16>>),
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
    if constexpr (B::arity <= kChainOperands + 1 && !is_left_to_tiles<B>)
      set_chain_step(&pointwise_op<B>(), 0, code(functor_step<B, 0>));
  });
}
#else
void register_chain_cpu() {}
#endif

}  // namespace tensora::cpu::TENSORA_ISA

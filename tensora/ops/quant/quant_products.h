#pragma once

// Internal header: products of activations with the rows of a weight.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/quant_chunks.h"
#include "tensora/ops/quant/quant_eights.h"

// Note [Products in chunks]
// Activations are rounded to 8 bits once per call. A weight is read 256 numbers at a time, in the
// order of the file: its bytes become whole numbers below 129 in magnitude, whose products with the
// activations are summed exactly, and only sums over 32 or 256 numbers meet a scale. Results are
// computed for eight rows of the weight at once, one in each lane. Few rows of activations (tokens
// that are generated) use the weights as they are read, up to four rows at a time. Many rows (a
// prompt) use rows of the weight that were unpacked into the cache with their numbers interleaved,
// so that sums of whole numbers need not be taken across lanes. Both perform the same float
// operations in the same order, so that a token's result does not depend on its neighbours.
//
// The instruction that multiplies bytes wants one factor without a sign. Few rows of
// activations x are therefore kept as magnitudes and as bytes that are -1 where x is negative, 0
// elsewhere. Exclusive or with these makes -w - 1 of a weight w, whose product with the magnitude
// is w x less the magnitude; the magnitudes of the negative ones of 32 numbers (`below`) are added
// at the end. That is one step where the weight's magnitude and its sign for x are two.
// Processors with AVX-512 VNNI multiply and add in one instruction, whose sums cannot overflow:
// there, weights with a sign get 128 added, and 128 times the sum of the activations (`bias`) is
// subtracted. Many rows of activations are multiplied with sixteen rows of the weight at once
// there.

namespace tensora::cpu::TENSORA_ISA {

/// A weight as it lies in memory.
struct WeightRows {
  const uint8_t* data = nullptr;
  int64_t row_bytes = 0, rows = 0, columns = 0;
};

#if defined(__AVX2__)

/// Activations rounded to 8 bits; rows are padded with zeros to whole chunks.
struct ByteRows {
  const int8_t* q = nullptr;
  const float* scale = nullptr;    // for 32 numbers, or for 256
  const float* total = nullptr;    // of 32 numbers, with their scale
  const int16_t* sums = nullptr;   // of 16 numbers, without
  int64_t chunks = 0, scales = 0;  // of a row
  // With a scale for 32 numbers; see Note [Products in chunks]. `bias` is -128 times the sum of 32
  // numbers; the others are made for few rows only.
  const int32_t* bias = nullptr;
  const int8_t *magnitudes = nullptr, *flips = nullptr;
  const int32_t* below = nullptr;
};

#if defined(__AVX512VNNI__)
inline constexpr bool kHasVnni = true;
#else
inline constexpr bool kHasVnni = false;
#endif
/// Whether products of a type's bytes are summed by VNNI, and weights with a sign get 128 added.
template <class Type>
inline constexpr bool sums_by_vnni = kHasVnni && (is_fine<Type> || !Type::kSigned);
template <class Type>
inline constexpr bool is_raised = sums_by_vnni<Type> && Type::kSigned;

/// q plus 128, without a sign.
[[gnu::always_inline]] inline __m256i raised(__m256i q) {
  return _mm256_xor_si256(q, _mm256_set1_epi8(-128));
}

/// Sums of pairs of products of bytes. No sum leaves 16 bits: q is below 129, x below 128.
template <bool is_signed>
[[gnu::always_inline]] inline __m256i pair_sums(__m256i q, __m256i magnitude, __m256i x) {
  return _mm256_maddubs_epi16(magnitude, is_signed ? _mm256_sign_epi8(x, q) : x);
}
template <bool is_signed>
[[gnu::always_inline]] inline __m256i magnitude_of(__m256i q) {
  return is_signed ? _mm256_abs_epi8(q) : q;
}

/// One row of the activations.
struct ByteRow {
  const int8_t* q;
  const float *scale, *total;
  const int16_t* sums;
  const int32_t* bias;

  ByteRow(const ByteRows& x, int64_t row)
      : q(x.q + row * x.chunks * kChunk),
        scale(x.scale + row * x.scales),
        total(x.total + row * x.scales),
        sums(x.sums + row * x.chunks * (kChunk / 16)),
        bias(x.bias + row * x.scales) {}
  [[gnu::always_inline]] __m256i part(int64_t chunk, int p) const {
    return load_part(q, chunk * kParts + p);
  }
  [[gnu::always_inline]] static __m256i load_part(const int8_t* of, int64_t part) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(of + part * 32));
  }
  [[gnu::always_inline]] __m256i group_sums(int64_t chunk) const {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + chunk * (kChunk / 16)));
  }
};

/// The parts of a row's chunk that belong to the row.
inline int parts_of(const WeightRows& w, int64_t chunk) {
  return static_cast<int>(std::min<int64_t>(kParts, (w.columns + 31) / 32 - chunk * kParts));
}

// ---- rows of the weight, interleaved -----------------------------------------------------------

/// Lane r of vector c becomes lane c of vector r.
[[gnu::always_inline]] inline void transpose(__m256i (&x)[8]) {
  __m256i y[8], z[8];
  for (int i = 0; i < 8; i += 2) {
    y[i] = _mm256_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm256_unpackhi_epi32(x[i], x[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int c = 0; c < 2; ++c) {
      z[i + 2 * c] = _mm256_unpacklo_epi64(y[i + c], y[i + c + 2]);
      z[i + 2 * c + 1] = _mm256_unpackhi_epi64(y[i + c], y[i + c + 2]);
    }
  for (int c = 0; c < 4; ++c) {
    x[c] = _mm256_permute2x128_si256(z[c], z[c + 4], 0x20);
    x[c + 4] = _mm256_permute2x128_si256(z[c], z[c + 4], 0x31);
  }
}
[[gnu::always_inline]] inline void transpose(__m256 (&x)[8]) {
  __m256i bits[8];
  for (int r = 0; r < 8; ++r) bits[r] = _mm256_castps_si256(x[r]);
  transpose(bits);
  for (int c = 0; c < 8; ++c) x[c] = _mm256_castsi256_ps(bits[c]);
}

/// One by one: compilers copy arrays through wider vectors, which wait for narrower stores.
template <int E>
[[gnu::always_inline]] inline void store_eight(const __m256i (&x)[8], __m256i (&to)[8][E],
                                               int eight) {
  for (int i = 0; i < 8; ++i) {
    __m256i one = x[i];
    keep_in_register(one);
    _mm256_store_si256(&to[i][eight], one);
  }
}

/// How many times eight rows are multiplied at once: VNNI multiplies 64 bytes, too.
template <class Type>
inline constexpr int kEights = sums_by_vnni<Type> ? 2 : 1;

/// A chunk of E times eight rows, a row to a lane; q[p][g] has numbers 4 g to 4 g + 3 of part p.
template <int E>
struct alignas(64) FineRows {
  __m256i q[kParts][8][E];
  __m256 d[kParts][E], m[kParts][E];
};
template <int E>
struct alignas(64) CoarseRows {
  __m256i q[kParts][8][E];
  __m256i s[2 * kParts][E];  // of a group of 16: 32 bits with VNNI, else 16 bits twice
  __m256i t[8][E];           // of two groups in a lane
  __m256 d[E], e[E];
};
template <class Type>
using RowsOf =
    std::conditional_t<is_fine<Type>, FineRows<kEights<Type>>, CoarseRows<kEights<Type>>>;

// How far ahead of its use a weight is asked for; the processor itself stops at the end of a page.
inline constexpr int64_t kAhead = 2048;

template <class Type>
[[gnu::always_inline]] inline void ask_for(const uint8_t* at) {
  for (int line = 0; line < chunk_bytes<Type>; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(at + kAhead + line), _MM_HINT_T0);
}
/// The rows from `first` on that are read together; behind `last` the last one is taken again.
struct RowsOfEight {
  const uint8_t* at[8];
  RowsOfEight(const WeightRows& w, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 8; ++r) at[r] = w.data + std::min(first + r, last - 1) * w.row_bytes;
  }
};

/// One part of eight rows, read as if it were a chunk: its parts are the rows. For what lies behind
/// the last whole chunk.
template <class Type>
[[gnu::always_inline]] inline void read_part(const RowsOfEight& rows, int64_t part,
                                             const WeightRows& w, FineChunk& to) {
  const uint8_t* first = rows.at[0] + part * Type::kBytes;
  const int64_t left = w.row_bytes - part * Type::kBytes;
  if (left >= Type::kBytes && rows.at[7] == rows.at[0] + 7 * w.row_bytes) [[likely]]
    return Type::read(first, to, w.row_bytes);
  uint8_t blocks[8 * Type::kBytes] = {};
  for (int r = 0; r < 8; ++r)
    std::memcpy(blocks + r * Type::kBytes, rows.at[r] + part * Type::kBytes,
                static_cast<size_t>(std::min<int64_t>(left, Type::kBytes)));
  Type::read(blocks, to);
}

template <class Type>
  requires is_fine<Type>
void read_eight(const RowsOfEight& rows, int64_t chunk, const WeightRows& w, RowsOf<Type>& to,
                int eight) {
  for (int r = 0; r < 8; ++r) ask_for<Type>(rows.at[r] + chunk * chunk_bytes<Type>);
  for (int p = 0, parts = parts_of(w, chunk); p < parts; ++p) {
    FineChunk part;
    read_part<Type>(rows, chunk * kParts + p, w, part);
    __m256i x[8];
    for (int r = 0; r < 8; ++r) x[r] = is_raised<Type> ? raised(part.q[r]) : part.q[r];
    transpose(x);
    store_eight(x, to.q[p], eight);
    to.d[p][eight] = part.d;
    if constexpr (has_offsets<Type>) to.m[p][eight] = part.m;
  }
}

/// The factors of 16 groups of eight rows, a row to a lane.
template <bool wide, int E>
[[gnu::always_inline]] inline void spread_factors(const __m128i (&rows)[8],
                                                  __m256i (&to)[2 * kParts][E], int eight) {
  __m128i twos[8], fours[8];  // of rows, for eight groups each and for four
  for (int i = 0; i < 4; ++i) {
    twos[i] = _mm_unpacklo_epi8(rows[2 * i], rows[2 * i + 1]);
    twos[4 + i] = _mm_unpackhi_epi8(rows[2 * i], rows[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    fours[2 * i] = _mm_unpacklo_epi16(twos[2 * i], twos[2 * i + 1]);
    fours[2 * i + 1] = _mm_unpackhi_epi16(twos[2 * i], twos[2 * i + 1]);
  }
  for (int g = 0; g < 2 * kParts; g += 4) {
    const int i = g / 8 * 4 + g / 4 % 2;
    const __m128i two[2] = {_mm_unpacklo_epi32(fours[i], fours[i + 2]),
                            _mm_unpackhi_epi32(fours[i], fours[i + 2])};
    for (int k = 0; k < 4; ++k) {
      const __m256i one =
          _mm256_cvtepi8_epi32(k % 2 ? _mm_unpackhi_epi64(two[k / 2], two[k / 2]) : two[k / 2]);
      to[g + k][eight] = wide ? one : _mm256_blend_epi16(one, _mm256_slli_epi32(one, 16), 0xaa);
    }
  }
}

template <class Type>
  requires(!is_fine<Type>)
void read_eight(const RowsOfEight& rows, int64_t chunk, const WeightRows&, RowsOf<Type>& to,
                int eight) {
  CoarseChunk from[8];
  alignas(32) float d[8], e[8];
  __m128i factors[8];
  for (int r = 0; r < 8; ++r) {
    ask_for<Type>(rows.at[r] + chunk * Type::kBytes);
    Type::read(rows.at[r] + chunk * Type::kBytes, from[r]);
    factors[r] = Type::factors(rows.at[r] + chunk * Type::kBytes);
    d[r] = from[r].d;
    e[r] = Type::kOwnOffset ? from[r].e : 0;
  }
  to.d[eight] = _mm256_load_ps(d);
  to.e[eight] = _mm256_load_ps(e);
  __m256i x[8];
  for (int p = 0; p < kParts; ++p) {
    for (int r = 0; r < 8; ++r) x[r] = from[r].q[p];
    transpose(x);
    store_eight(x, to.q[p], eight);
  }
  spread_factors<sums_by_vnni<Type>>(factors, to.s, eight);
  if constexpr (Type::kOffset) {
    for (int r = 0; r < 8; ++r) x[r] = from[r].t;
    transpose(x);
    store_eight(x, to.t, eight);
  }
}

/// How many sums of pairs can be added before they leave 16 bits.
template <class Type>
inline constexpr int kFitting = 32767 / (2 * 127 * Type::kLargest) >= 8   ? 8
                                : 32767 / (2 * 127 * Type::kLargest) >= 4 ? 4
                                : 32767 / (2 * 127 * Type::kLargest) >= 2 ? 2
                                                                          : 1;

/// Four bytes, in every lane.
template <int E = 1>
[[gnu::always_inline]] inline auto four_at(const void* from) {
  int32_t four;
  std::memcpy(&four, from, sizeof four);
  return Eights<E>::all(four);
}

/// Adds the products of 4 times `count` numbers, times a factor, for X rows of activations.
template <class Type, int X, int count>
[[gnu::always_inline]] inline void add_groups(const __m256i* q, const ByteRow (&x)[X], int64_t at,
                                              __m256i factor, __m256i (&whole)[X]) {
  constexpr int kTogether = std::min(count, kFitting<Type>);
#pragma GCC unroll 8
  for (int g = 0; g < count; g += kTogether) {
    __m256i pairs[X];
#pragma GCC unroll 8
    for (int h = g; h < g + kTogether; ++h) {
      const __m256i numbers = q[h], magnitude = magnitude_of<Type::kSigned>(numbers);
      for (int i = 0; i < X; ++i) {
        const __m256i products =
            pair_sums<Type::kSigned>(numbers, magnitude, four_at(x[i].q + at + 4 * h));
        pairs[i] = h == g ? products : _mm256_add_epi16(pairs[i], products);
        keep_in_register(pairs[i]);
      }
    }
    for (int i = 0; i < X; ++i)
      whole[i] = _mm256_add_epi32(whole[i], _mm256_madd_epi16(pairs[i], factor));
  }
}
/// Adds the products of 4 times `count` numbers by VNNI.
template <int count, int E, class Whole, int X>
[[gnu::always_inline]] inline void add_fours(const __m256i (*q)[E], const ByteRow (&x)[X],
                                             int64_t at, Whole (&whole)[X]) {
#pragma GCC unroll 8
  for (int g = 0; g < count; ++g) {
    const Whole numbers = Eights<E>::load(q[g]);
    for (int i = 0; i < X; ++i) {
      whole[i] = with_fours(whole[i], numbers, four_at<E>(x[i].q + at + 4 * g));
      keep_in_register(whole[i]);
    }
  }
}

// The float operations of parts and chunks; the only ones, but for the sum of sums.

/// Of the activations: what belongs to the lanes of the others.
template <class Floats>
struct PartFactors {
  Floats scale, total;
};
template <class Type, class Floats, class Whole>
[[gnu::always_inline]] inline Floats with_parts(Floats sum, Whole whole, Floats d, Floats m,
                                                const PartFactors<Floats>& x) {
  sum = fused(to_floats(whole), times(d, x.scale), sum);
  if constexpr (Type::kShift != 0) m = times(d, EightsOf<Floats>::all(-Type::kShift));
  if constexpr (Type::kOffset) sum = fused(m, x.total, sum);
  return sum;
}
/// A format with a scale for 32 numbers has eight sums, for the parts of all chunks with a number.
template <class Floats>
[[gnu::always_inline]] inline Floats sum_of_sums(const Floats (&x)[8]) {
  const auto two = [&](int i) { return x[i] + x[i + 1]; };
  return (two(0) + two(2)) + (two(4) + two(6));
}
template <class Type, class Floats, class Whole>
[[gnu::always_inline]] inline Floats with_chunk(Floats sum, Whole whole, Whole low, Floats d,
                                                Floats e, const ByteRow& x, int64_t chunk) {
  Floats share = times(to_floats(whole), d);
  if constexpr (Type::kOwnOffset) share = fused_less(to_floats(low), e, share);
  return fused(share, EightsOf<Floats>::all(x.scale[chunk]), sum);
}

/// Adds part p of `chunks` chunks, from `chunk` on, to the sums of some rows with X rows of
/// activations.
template <class Type, int X, int E>
[[gnu::always_inline]] inline void add_part(const FineRows<E>* w, const ByteRow (&x)[X], int p,
                                            int64_t chunk, int64_t chunks,
                                            typename Eights<E>::Floats (&sums)[X]) {
  using Lanes = Eights<E>;
  for (int64_t c = 0; c < chunks; ++c) {
    const int64_t part = (chunk + c) * kParts + p;
    const auto add = [&](int i, typename Lanes::Whole whole) {
      sums[i] = with_parts<Type>(sums[i], whole, Lanes::load(w[c].d[p]), Lanes::load(w[c].m[p]),
                                 {Lanes::all(x[i].scale[part]), Lanes::all(x[i].total[part])});
    };
    if constexpr (sums_by_vnni<Type>) {
      // Row by row: GCC 12 keeps an array of sums in memory.
      for (int i = 0; i < X; ++i) {
        auto whole = Lanes::all(is_raised<Type> ? x[i].bias[part] : int32_t{0});
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g)
          whole =
              with_fours(whole, Lanes::load(w[c].q[p][g]), four_at<E>(x[i].q + part * 32 + 4 * g));
        add(i, whole);
      }
    } else {
      __m256i whole[X];
      for (__m256i& one : whole) one = _mm256_setzero_si256();
      add_groups<Type, X, 8>(w[c].q[p][0], x, part * 32, _mm256_set1_epi16(1), whole);
      for (int i = 0; i < X; ++i) add(i, whole[i]);
    }
  }
}
/// Adds a chunk.
template <class Type, int X, int E>
[[gnu::always_inline]] inline void add_chunk(const CoarseRows<E>& w, const ByteRow (&x)[X],
                                             int64_t chunk, typename Eights<E>::Floats (&sums)[X]) {
  using Lanes = Eights<E>;
  typename Lanes::Whole whole[X], low[X];
  for (int i = 0; i < X; ++i) whole[i] = low[i] = Lanes::all(int32_t{0});
  for (int h = 0; h < 2 * kParts; h += Type::kSharedFactors) {
    const __m256i(*const q)[E] = w.q[h / 2] + h % 2 * 4;
    const int64_t at = chunk * kChunk + h * 16;
    constexpr int kFours = 4 * Type::kSharedFactors;
    if constexpr (sums_by_vnni<Type>) {
      typename Lanes::Whole group[X];
      for (auto& one : group) one = Lanes::all(int32_t{0});
      add_fours<kFours>(q, x, at, group);
      for (int i = 0; i < X; ++i) whole[i] = plus(whole[i], times(group[i], Lanes::load(w.s[h])));
    } else {
      add_groups<Type, X, kFours>(q[0], x, at, w.s[h][0], whole);
    }
  }
  if constexpr (Type::kOffset)
    for (int g = 0; g < 8; ++g)
      for (int i = 0; i < X; ++i) {
        const auto two = four_at<E>(x[i].sums + chunk * (kChunk / 16) + 2 * g);
        low[i] = with_pairs(low[i], Lanes::load(w.t[g]), two);
      }
  for (int i = 0; i < X; ++i) {
    if constexpr (!Type::kOwnOffset) whole[i] = minus(whole[i], low[i]);
    sums[i] = with_chunk<Type>(sums[i], whole[i], low[i], Lanes::load(w.d), Lanes::load(w.e), x[i],
                               chunk);
  }
}

#endif

}  // namespace tensora::cpu::TENSORA_ISA

#pragma once

// Internal header: products of up to four rows of activations with eight rows of a weight, as they
// lie. See Note [Products in chunks].

#include "tensora/ops/quant/quant_products.h"

#if defined(__AVX2__)

namespace tensora::cpu::TENSORA_ISA {

/// Lane i of each half is the sum of that half of vector i; `small`: sums of two lanes fit in 16
/// bits.
template <bool small>
[[gnu::always_inline]] inline __m256i sums_of_halves(const __m256i (&x)[4]) {
  // Neighbours in two steps, one of them in a unit that has less to do.
  const auto pairs = [](__m256i a, __m256i b) {
    return _mm256_madd_epi16(_mm256_packs_epi32(a, b), _mm256_set1_epi16(1));
  };
  if constexpr (small) return pairs(pairs(x[0], x[1]), pairs(x[2], x[3]));
  // In three steps, which take half as long as _mm256_hadd_epi32.
  const auto twos = [](__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  };
  const __m256i a = twos(x[0], x[1]), b = twos(x[2], x[3]);
  return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}
[[gnu::always_inline]] inline __m256i sum_of_halves(const __m256i (&x)[2]) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(x[0], x[1], 0x20),
                          _mm256_permute2x128_si256(x[0], x[1], 0x31));
}
/// Lane i is the sum of the lanes of vector i.
template <bool small>
[[gnu::always_inline]] inline __m256i sums_of_lanes(const __m256i (&x)[8]) {
  const __m256i halves[2] = {sums_of_halves<small>({x[0], x[1], x[2], x[3]}),
                             sums_of_halves<small>({x[4], x[5], x[6], x[7]})};
  return sum_of_halves(halves);
}
/// Whether sums of products of eight numbers fit in 16 bits.
template <class Type>
inline constexpr bool has_small_sums = !is_raised<Type> && 8 * 127 * (Type::kLargest + 1) <= 32767;

/// A part of one row of activations as the weights of a type want it.
template <class Type>
struct Factor {
  static constexpr bool kFlips = Type::kSigned && !is_raised<Type>;
  __m256i x, flip;
  [[gnu::always_inline]] Factor(const ByteRows& of, int64_t part)
      : x(ByteRow::load_part(kFlips ? of.magnitudes : of.q, part)) {
    if constexpr (kFlips) flip = ByteRow::load_part(of.flips, part);
  }
  /// The sums of four products each; with signs they lack `missing`.
  [[gnu::always_inline]] __m256i fours(__m256i q) const {
    if constexpr (kHasVnni)
      return with_fours(_mm256_setzero_si256(), is_raised<Type> ? raised(q) : q, x);
    __m256i pairs;
    if constexpr (kFlips)
      pairs = _mm256_maddubs_epi16(x, _mm256_xor_si256(q, flip));
    else
      pairs = _mm256_maddubs_epi16(q, x);
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
};

/// What sums of 32 products of weights with a sign lack.
[[gnu::always_inline]] inline const int32_t* missing(const ByteRows& x) {
  return kHasVnni ? x.bias : x.below;
}

/// The sums of one row's whole chunks with X rows of activations, a part to a lane.
template <class Type, int X>
[[gnu::always_inline]] inline void sums_of_chunks(const uint8_t* row, int64_t chunks,
                                                  const ByteRows& x, int64_t first,
                                                  __m256 (&sums)[X]) {
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  for (int64_t c = 0; c < chunks; ++c, row += chunk_bytes<Type>) {
    ask_for<Type>(row);
    FineChunk chunk;
    Type::read(row, chunk);
#pragma GCC unroll 4
    for (int i = 0; i < X; ++i) {
      const int64_t part = (first + i) * x.scales + c * kParts;
      __m256i fours[kParts];
#pragma GCC unroll 8
      for (int p = 0; p < kParts; ++p) fours[p] = Factor<Type>(x, part + p).fours(chunk.q[p]);
      __m256i whole = sums_of_lanes<has_small_sums<Type>>(fours);
      if constexpr (Type::kSigned)
        whole = _mm256_add_epi32(
            whole, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(missing(x) + part)));
      const PartFactors factors = {_mm256_loadu_ps(x.scale + part),
                                   _mm256_loadu_ps(x.total + part)};
      sums[i] = with_parts<Type>(sums[i], whole, chunk.d, chunk.m, factors);
    }
  }
}
/// Adds a part of eight rows, a row to a lane. `place`: of the part among all rows of activations.
template <class Type>
[[gnu::always_inline]] inline __m256 with_part(__m256 sum, const FineChunk& part, const ByteRows& x,
                                               int64_t place) {
  const Factor<Type> factor(x, place);
  __m256i fours[8];
#pragma GCC unroll 8
  for (int r = 0; r < 8; ++r) fours[r] = factor.fours(part.q[r]);
  __m256i whole = sums_of_lanes<has_small_sums<Type>>(fours);
  if constexpr (Type::kSigned)
    whole = _mm256_add_epi32(whole, _mm256_set1_epi32(missing(x)[place]));
  return with_parts<Type>(sum, whole, part.d, part.m,
                          {_mm256_set1_ps(x.scale[place]), _mm256_set1_ps(x.total[place])});
}

/// Short rows come from a cache, and side by side they share what is loaded of the activations.
inline bool are_short(const WeightRows& w) {
  return 2 * w.row_bytes <= kAhead && w.columns % 32 == 0;
}
/// The results of rows first to last, a multiple of eight, with X rows of activations.
template <class Type, int X>
  requires is_fine<Type>
[[gnu::noinline]] void times_short_rows(const WeightRows& w, int64_t first, int64_t last,
                                        const ByteRows& x, int64_t row, float* out,
                                        int64_t out_stride) {
  const int64_t stride = w.row_bytes, parts = w.columns / 32;
  __m256i zero = _mm256_setzero_si256();
  keep_in_register(zero);  // or compilers make a slow memset of it
  for (const uint8_t* rows = w.data + first * stride; first < last;
       first += 8, rows += 8 * stride, out += 8) {
    __m256 sums[X][kParts];
    for (auto& each : sums)
      for (__m256& sum : each) sum = _mm256_castsi256_ps(zero);
    const uint8_t *from = rows, *next = rows + 8 * stride - kAhead;
    for (int64_t p = 0; p < parts; ++p, from += Type::kBytes, next += chunk_bytes<Type>) {
      ask_for<Type>(next);
      FineChunk part;
      Type::read(from, part, stride);
#pragma GCC unroll 4
      for (int i = 0; i < X; ++i) {
        __m256& sum = sums[i][p & (kParts - 1)];
        sum = with_part<Type>(sum, part, x, (row + i) * x.scales + p);
      }
    }
    for (int i = 0; i < X; ++i) _mm256_storeu_ps(out + i * out_stride, sum_of_sums(sums[i]));
  }
}
/// Eight rows' results with X rows of activations, from `first` on.
template <class Type, int X>
  requires is_fine<Type>
void times_vectors(const RowsOfEight& rows, const WeightRows& w, const ByteRows& x, int64_t first,
                   __m256 (&results)[X]) {
  const int64_t chunks = w.columns / kChunk;  // whole ones
  __m256 sums[X][kParts];                     // of a row, a part to a lane
  for (int r = 0; r < 8; ++r) {
    __m256 of_row[X];
    sums_of_chunks<Type, X>(rows.at[r], chunks, x, first, of_row);
    for (int i = 0; i < X; ++i) sums[i][r] = of_row[i];
  }
  for (auto& each : sums) transpose(each);
  for (int p = 0, parts = parts_of(w, chunks); p < parts; ++p) {
    FineChunk part;
    read_part<Type>(rows, chunks * kParts + p, w, part);
    for (int i = 0; i < X; ++i)
      sums[i][p] =
          with_part<Type>(sums[i][p], part, x, (first + i) * x.scales + chunks * kParts + p);
  }
  for (int i = 0; i < X; ++i) results[i] = sum_of_sums(sums[i]);
}

template <class Type, int X>
  requires(!is_fine<Type>)
void times_vectors(const RowsOfEight& rows, const WeightRows& w, const ByteRows& x, int64_t first,
                   __m256 (&results)[X]) {
  constexpr int64_t kLong = 32 / X;  // chunks whose sums are kept until all rows have theirs
  __m256i whole[X][kLong][8], low[X][kLong][8];
  alignas(32) float factors[kLong][2][8];  // d and e
  for (__m256& result : results) result = _mm256_setzero_ps();
  const int64_t chunks = w.columns / kChunk;
  for (int64_t begin = 0; begin < chunks; begin += kLong) {
    const int64_t count = std::min(kLong, chunks - begin);
    for (int r = 0; r < 8; ++r)
      for (int64_t c = 0; c < count; ++c) {
        const uint8_t* from = rows.at[r] + (begin + c) * Type::kBytes;
        ask_for<Type>(from);
        CoarseChunk local;
        Type::read(from, local);
#pragma GCC unroll 4
        for (int i = 0; i < X; ++i) {
          const ByteRow of_x(x, first + i);
          __m256i sum_of_chunk = _mm256_setzero_si256(), offset = sum_of_chunk;
#pragma GCC unroll 8
          for (int p = 0; p < kParts; ++p) {
            const __m256i pairs = pair_sums<Type::kSigned>(
                local.q[p], magnitude_of<Type::kSigned>(local.q[p]), of_x.part(begin + c, p));
            sum_of_chunk = with_pairs(sum_of_chunk, pairs, local.s[p]);
            keep_in_register(sum_of_chunk);
          }
          if constexpr (Type::kOffset)
            offset = _mm256_madd_epi16(local.t, of_x.group_sums(begin + c));
          whole[i][c][r] = Type::kOwnOffset ? sum_of_chunk : _mm256_sub_epi32(sum_of_chunk, offset);
          if constexpr (Type::kOwnOffset) low[i][c][r] = offset;
        }
        factors[c][0][r] = local.d;
        if constexpr (Type::kOwnOffset) factors[c][1][r] = local.e;
      }
    for (int64_t c = 0; c < count; ++c)
      for (int i = 0; i < X; ++i) {
        __m256i offset = _mm256_setzero_si256();
        if constexpr (Type::kOwnOffset) offset = sums_of_lanes<false>(low[i][c]);
        results[i] = with_chunk<Type>(results[i], sums_of_lanes<false>(whole[i][c]), offset,
                                      _mm256_load_ps(factors[c][0]), _mm256_load_ps(factors[c][1]),
                                      ByteRow(x, first + i), begin + c);
      }
  }
}

}  // namespace tensora::cpu::TENSORA_ISA

#endif

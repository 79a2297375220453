#pragma once

// Internal header: products of activations with the rows of a weight.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/quant_chunks.h"

// Note [Products in chunks]
// Activations are rounded to 8 bits once per call. A weight is read 256 numbers at a time, in the
// order of the file: its bytes become whole numbers below 129 in magnitude, whose products with the
// activations are summed exactly, and only sums over 32 or 256 numbers meet a scale. Results are
// computed for eight rows of the weight at once, one in each lane. One row of activations (a token
// that is generated) uses each weight once, as it is read. Several rows (a prompt) use rows of the
// weight that were unpacked into the cache with their numbers interleaved, so that sums of whole
// numbers need not be taken across lanes. Both perform the same float operations in the same order,
// so that a token's result does not depend on its neighbours.
//
// The instruction that multiplies bytes wants one factor without a sign. A single row of
// activations x is therefore kept as magnitudes and as bytes that are -1 where x is negative, 0
// elsewhere. Exclusive or with these makes -w - 1 of a weight w, whose product with the magnitude
// is w x less the magnitude; the magnitudes of the negative ones of 32 numbers (`below`) are added
// at the end. That is one step where the weight's magnitude and its sign for x are two.

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
  // Of one row with a scale for 32 numbers; see Note [Products in chunks].
  const int8_t *magnitudes = nullptr, *flips = nullptr;
  const int32_t* below = nullptr;
};

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

  ByteRow(const ByteRows& x, int64_t row)
      : q(x.q + row * x.chunks * kChunk),
        scale(x.scale + row * x.scales),
        total(x.total + row * x.scales),
        sums(x.sums + row * x.chunks * (kChunk / 16)) {}
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

/// Whole numbers may be added in any order, and compilers put sums off until they run out of
/// registers; this makes them add at once.
[[gnu::always_inline]] inline void keep_in_register(__m256i& value) { asm("" : "+x"(value)); }

/// The parts of a row's chunk that belong to the row.
inline int parts_of(const WeightRows& w, int64_t chunk) {
  return static_cast<int>(std::min<int64_t>(kParts, (w.columns + 31) / 32 - chunk * kParts));
}

// ---- eight rows, interleaved -------------------------------------------------------------------

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

/// A chunk of eight rows, a row to a lane; q[p][g] has numbers 4 g to 4 g + 3 of part p.
struct FineEight {
  __m256i q[kParts][8];
  __m256 d[kParts], m[kParts];
};
struct CoarseEight {
  __m256i q[kParts][8];
  __m256i s[2 * kParts];  // of a group of 16, twice in a lane
  __m256i t[8];           // of two groups in a lane
  __m256 d, e;
};
template <class Type>
using EightOf = std::conditional_t<is_fine<Type>, FineEight, CoarseEight>;

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
void read_eight(const RowsOfEight& rows, int64_t chunk, const WeightRows& w, FineEight& to) {
  __m256i x[8];
  if (const int parts = parts_of(w, chunk); parts < kParts) {
    for (int p = 0; p < parts; ++p) {
      FineChunk part;
      read_part<Type>(rows, chunk * kParts + p, w, part);
      std::copy_n(part.q, 8, x);
      transpose(x);
      std::copy_n(x, 8, to.q[p]);
      to.d[p] = part.d;
      if constexpr (has_offsets<Type>) to.m[p] = part.m;
    }
    return;
  }
  FineChunk from[8];
  for (int r = 0; r < 8; ++r) Type::read(rows.at[r] + chunk * chunk_bytes<Type>, from[r]);
  for (int p = 0; p < kParts; ++p) {
    for (int r = 0; r < 8; ++r) x[r] = from[r].q[p];
    transpose(x);
    std::copy_n(x, 8, to.q[p]);
  }
  for (int r = 0; r < 8; ++r) {
    to.d[r] = from[r].d;
    if constexpr (has_offsets<Type>) to.m[r] = from[r].m;
  }
  transpose(to.d);
  if constexpr (has_offsets<Type>) transpose(to.m);
}

template <class Type>
  requires(!is_fine<Type>)
void read_eight(const RowsOfEight& rows, int64_t chunk, const WeightRows&, CoarseEight& to) {
  CoarseChunk from[8];
  alignas(32) float d[8], e[8];
  for (int r = 0; r < 8; ++r) {
    Type::read(rows.at[r] + chunk * Type::kBytes, from[r]);
    d[r] = from[r].d;
    e[r] = Type::kOwnOffset ? from[r].e : 0;
  }
  to.d = _mm256_load_ps(d);
  to.e = _mm256_load_ps(e);
  __m256i x[8];
  for (int p = 0; p < kParts; ++p) {
    for (int r = 0; r < 8; ++r) x[r] = from[r].q[p];
    transpose(x);
    std::copy_n(x, 8, to.q[p]);
    for (int r = 0; r < 8; ++r) x[r] = from[r].s[p];
    transpose(x);
    to.s[2 * p] = x[0];
    to.s[2 * p + 1] = x[4];
  }
  if constexpr (Type::kOffset) {
    for (int r = 0; r < 8; ++r) x[r] = from[r].t;
    transpose(x);
    std::copy_n(x, 8, to.t);
  }
}

/// How many sums of pairs can be added before they leave 16 bits.
template <class Type>
inline constexpr int kFitting = 32767 / (2 * 127 * Type::kLargest) >= 8   ? 8
                                : 32767 / (2 * 127 * Type::kLargest) >= 4 ? 4
                                : 32767 / (2 * 127 * Type::kLargest) >= 2 ? 2
                                                                          : 1;

/// Four bytes, in every lane.
[[gnu::always_inline]] inline __m256i four_at(const void* from) {
  int32_t four;
  std::memcpy(&four, from, sizeof four);
  return _mm256_set1_epi32(four);
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

// The float operations of parts and chunks; the only ones, but for the sum of sums.

/// Of the activations: what belongs to the lanes of the others.
struct PartFactors {
  __m256 scale, total;
};
template <class Type>
[[gnu::always_inline]] inline __m256 with_parts(__m256 sum, __m256i whole, __m256 d, __m256 m,
                                                const PartFactors& x) {
  sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(d, x.scale), sum);
  if constexpr (Type::kShift != 0) m = _mm256_mul_ps(d, _mm256_set1_ps(-Type::kShift));
  if constexpr (Type::kOffset) sum = _mm256_fmadd_ps(m, x.total, sum);
  return sum;
}
/// Of one part of the activations for eight rows of the weight, or of eight parts for one row.
[[gnu::always_inline]] inline PartFactors factors_of_one(const ByteRow& x, int64_t part) {
  return {_mm256_set1_ps(x.scale[part]), _mm256_set1_ps(x.total[part])};
}
[[gnu::always_inline]] inline PartFactors factors_of_eight(const ByteRow& x, int64_t chunk) {
  return {_mm256_loadu_ps(x.scale + chunk * kParts), _mm256_loadu_ps(x.total + chunk * kParts)};
}
/// A format with a scale for 32 numbers has eight sums, for the parts of all chunks with a number.
[[gnu::always_inline]] inline __m256 sum_of_sums(const __m256 (&x)[8]) {
  const auto two = [&](int i) { return _mm256_add_ps(x[i], x[i + 1]); };
  return _mm256_add_ps(_mm256_add_ps(two(0), two(2)), _mm256_add_ps(two(4), two(6)));
}
template <class Type>
[[gnu::always_inline]] inline __m256 with_chunk(__m256 sum, __m256i whole, __m256i low, __m256 d,
                                                __m256 e, const ByteRow& x, int64_t chunk) {
  __m256 share = _mm256_mul_ps(_mm256_cvtepi32_ps(whole), d);
  if constexpr (Type::kOwnOffset) share = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(low), e, share);
  return _mm256_fmadd_ps(share, _mm256_set1_ps(x.scale[chunk]), sum);
}

/// Adds part p of `chunks` chunks, from `chunk` on, to the sums of eight rows with X rows of
/// activations.
template <class Type, int X>
[[gnu::always_inline]] inline void add_part(const FineEight* w, const ByteRow (&x)[X], int p,
                                            int64_t chunk, int64_t chunks, __m256 (&sums)[X]) {
  for (int64_t c = 0; c < chunks; ++c) {
    const int64_t part = (chunk + c) * kParts + p;
    __m256i whole[X];
    for (__m256i& one : whole) one = _mm256_setzero_si256();
    add_groups<Type, X, 8>(w[c].q[p], x, part * 32, _mm256_set1_epi16(1), whole);
    for (int i = 0; i < X; ++i)
      sums[i] =
          with_parts<Type>(sums[i], whole[i], w[c].d[p], w[c].m[p], factors_of_one(x[i], part));
  }
}
/// Adds a chunk.
template <class Type, int X>
[[gnu::always_inline]] inline void add_chunk(const CoarseEight& w, const ByteRow (&x)[X],
                                             int64_t chunk, __m256 (&sums)[X]) {
  __m256i whole[X], low[X];
  for (int i = 0; i < X; ++i) whole[i] = low[i] = _mm256_setzero_si256();
  for (int h = 0; h < 2 * kParts; ++h)
    add_groups<Type, X, 4>(w.q[h / 2] + h % 2 * 4, x, chunk * kChunk + h * 16, w.s[h], whole);
  if constexpr (Type::kOffset)
    for (int g = 0; g < 8; ++g)
      for (int i = 0; i < X; ++i) {
        const __m256i two = four_at(x[i].sums + chunk * (kChunk / 16) + 2 * g);
        low[i] = _mm256_add_epi32(low[i], _mm256_madd_epi16(w.t[g], two));
      }
  for (int i = 0; i < X; ++i) {
    if constexpr (!Type::kOwnOffset) whole[i] = _mm256_sub_epi32(whole[i], low[i]);
    sums[i] = with_chunk<Type>(sums[i], whole[i], low[i], w.d, w.e, x[i], chunk);
  }
}

// ---- eight rows, as they lie -------------------------------------------------------------------

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
inline constexpr bool has_small_sums = 8 * 127 * (Type::kLargest + 1) <= 32767;

// How far ahead of its use a weight is asked for; the processor itself stops at the end of a page.
inline constexpr int64_t kAhead = 2048;

template <class Type>
[[gnu::always_inline]] inline void ask_for(const uint8_t* at) {
  for (int line = 0; line < chunk_bytes<Type>; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(at + kAhead + line), _MM_HINT_T0);
}
/// A part of one row of activations as the weights of a type want it.
template <class Type>
struct Factor {
  __m256i x, flip;
  [[gnu::always_inline]] Factor(const ByteRows& of, int64_t part)
      : x(ByteRow::load_part(Type::kSigned ? of.magnitudes : of.q, part)) {
    if constexpr (Type::kSigned) flip = ByteRow::load_part(of.flips, part);
  }
  /// The sums of four products each; with signs they lack `below`.
  [[gnu::always_inline]] __m256i fours(__m256i q) const {
    __m256i pairs;
    if constexpr (Type::kSigned)
      pairs = _mm256_maddubs_epi16(x, _mm256_xor_si256(q, flip));
    else
      pairs = _mm256_maddubs_epi16(q, x);
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
};

/// The sum of one row's whole chunks, a part to a lane.
template <class Type>
[[gnu::always_inline]] inline __m256 sum_of_chunks(const uint8_t* row, int64_t chunks,
                                                   const ByteRows& x) {
  __m256 sum = _mm256_setzero_ps();
  for (int64_t c = 0; c < chunks; ++c, row += chunk_bytes<Type>) {
    ask_for<Type>(row);
    FineChunk chunk;
    Type::read(row, chunk);
    __m256i fours[kParts];
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) fours[p] = Factor<Type>(x, c * kParts + p).fours(chunk.q[p]);
    __m256i whole = sums_of_lanes<has_small_sums<Type>>(fours);
    if constexpr (Type::kSigned)
      whole = _mm256_add_epi32(
          whole, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x.below + c * kParts)));
    sum = with_parts<Type>(sum, whole, chunk.d, chunk.m, factors_of_eight(ByteRow(x, 0), c));
  }
  return sum;
}
/// Adds a part of eight rows, a row to a lane.
template <class Type>
[[gnu::always_inline]] inline __m256 with_part(__m256 sum, const FineChunk& part, const ByteRows& x,
                                               int64_t place) {
  const Factor<Type> factor(x, place);
  __m256i fours[8];
#pragma GCC unroll 8
  for (int r = 0; r < 8; ++r) fours[r] = factor.fours(part.q[r]);
  __m256i whole = sums_of_lanes<has_small_sums<Type>>(fours);
  if constexpr (Type::kSigned) whole = _mm256_add_epi32(whole, _mm256_set1_epi32(x.below[place]));
  return with_parts<Type>(sum, whole, part.d, part.m, factors_of_one(ByteRow(x, 0), place));
}

/// Short rows come from a cache, and side by side they share what is loaded of the activations.
inline bool are_short(const WeightRows& w) {
  return 2 * w.row_bytes <= kAhead && w.columns % 32 == 0;
}
/// The results of rows first to last, a multiple of eight, with one row of activations.
template <class Type>
  requires is_fine<Type>
[[gnu::noinline]] void times_short_rows(const WeightRows& w, int64_t first, int64_t last,
                                        const ByteRows& x, float* out) {
  const int64_t stride = w.row_bytes, parts = w.columns / 32;
  __m256i zero = _mm256_setzero_si256();
  keep_in_register(zero);  // or compilers make a slow memset of it
  for (const uint8_t* rows = w.data + first * stride; first < last;
       first += 8, rows += 8 * stride, out += 8) {
    __m256 sums[kParts];
    for (__m256& sum : sums) sum = _mm256_castsi256_ps(zero);
    const uint8_t *from = rows, *next = rows + 8 * stride - kAhead;
    for (int64_t p = 0; p < parts; ++p, from += Type::kBytes, next += chunk_bytes<Type>) {
      ask_for<Type>(next);
      FineChunk part;
      Type::read(from, part, stride);
      sums[p & (kParts - 1)] = with_part<Type>(sums[p & (kParts - 1)], part, x, p);
    }
    _mm256_storeu_ps(out, sum_of_sums(sums));
  }
}
/// Eight rows' results with one row of activations.
template <class Type>
  requires is_fine<Type>
__m256 times_vector(const RowsOfEight& rows, const WeightRows& w, const ByteRows& x) {
  const int64_t chunks = w.columns / kChunk;  // whole ones
  __m256 sums[kParts];                        // of a row, a part to a lane
  for (int r = 0; r < 8; ++r) sums[r] = sum_of_chunks<Type>(rows.at[r], chunks, x);
  transpose(sums);
  for (int p = 0, parts = parts_of(w, chunks); p < parts; ++p) {
    FineChunk part;
    read_part<Type>(rows, chunks * kParts + p, w, part);
    sums[p] = with_part<Type>(sums[p], part, x, chunks * kParts + p);
  }
  return sum_of_sums(sums);
}

template <class Type>
  requires(!is_fine<Type>)
__m256 times_vector(const RowsOfEight& rows, const WeightRows& w, const ByteRows& all) {
  const ByteRow x(all, 0);
  constexpr int64_t kLong = 32;  // chunks whose sums are kept until all rows have theirs
  __m256i whole[kLong][8], low[kLong][8];
  alignas(32) float factors[kLong][2][8];  // d and e
  __m256 sum = _mm256_setzero_ps();
  const int64_t chunks = w.columns / kChunk;
  for (int64_t begin = 0; begin < chunks; begin += kLong) {
    const int64_t count = std::min(kLong, chunks - begin);
    for (int r = 0; r < 8; ++r)
      for (int64_t c = 0; c < count; ++c) {
        const uint8_t* from = rows.at[r] + (begin + c) * Type::kBytes;
        ask_for<Type>(from);
        CoarseChunk local;
        Type::read(from, local);
        __m256i sum_of_chunk = _mm256_setzero_si256(), offset = sum_of_chunk;
#pragma GCC unroll 8
        for (int p = 0; p < kParts; ++p) {
          const __m256i pairs = pair_sums<Type::kSigned>(
              local.q[p], magnitude_of<Type::kSigned>(local.q[p]), x.part(begin + c, p));
          sum_of_chunk = _mm256_add_epi32(sum_of_chunk, _mm256_madd_epi16(pairs, local.s[p]));
          keep_in_register(sum_of_chunk);
        }
        if constexpr (Type::kOffset) offset = _mm256_madd_epi16(local.t, x.group_sums(begin + c));
        whole[c][r] = Type::kOwnOffset ? sum_of_chunk : _mm256_sub_epi32(sum_of_chunk, offset);
        if constexpr (Type::kOwnOffset) low[c][r] = offset;
        factors[c][0][r] = local.d;
        if constexpr (Type::kOwnOffset) factors[c][1][r] = local.e;
      }
    for (int64_t c = 0; c < count; ++c) {
      __m256i offset = _mm256_setzero_si256();
      if constexpr (Type::kOwnOffset) offset = sums_of_lanes<false>(low[c]);
      sum = with_chunk<Type>(sum, sums_of_lanes<false>(whole[c]), offset,
                             _mm256_load_ps(factors[c][0]), _mm256_load_ps(factors[c][1]), x,
                             begin + c);
    }
  }
  return sum;
}

#endif

}  // namespace tensora::cpu::TENSORA_ISA

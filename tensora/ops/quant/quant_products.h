#pragma once

// Internal header: products of activations with the rows of a weight.

#include <cmath>
#include <cstring>

#include "tensora/core/dtype.h"
#include "tensora/ops/quant/quant_chunks.h"

// Note [Products in chunks]
// Activations are rounded to 8 bits once per call. A weight is read 256 numbers at a time, in the
// order of the file: its bytes become whole numbers below 128 in magnitude, whose products with the
// activations are summed exactly, and only sums over 32 or 256 numbers meet a scale. One row of
// activations (a token that is generated) uses each weight once, as it is read. Many rows (a
// prompt) use rows of the weight that were unpacked into the cache. Both perform the same float
// operations in the same order, so that a token's result does not depend on its neighbours.

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
};

[[gnu::always_inline]] inline float sum_of_lanes(__m256 x) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
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

/// What is summed for one element of the result: even and odd parts apart, because an addition has
/// to wait for the one before it, and offsets.
struct Sums {
  __m256 even = _mm256_setzero_ps(), odd = even, offset = even;
  [[gnu::always_inline]] float total() const {
    return sum_of_lanes(_mm256_add_ps(_mm256_add_ps(even, odd), offset));
  }
};

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
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + chunk * kChunk + p * 32));
  }
};

/// Whole numbers may be added in any order, and compilers put sums off until they run out of
/// registers; this makes them add at once.
[[gnu::always_inline]] inline void keep_in_register(__m256i& value) { asm("" : "+x"(value)); }

/// Adds a chunk's share of W rows' products with X rows of activations.
template <class Type, int W, int X>
[[gnu::always_inline]] inline void add_products(const FineChunk* const (&w)[W],
                                                const ByteRow (&x)[X], int64_t chunk,
                                                Sums (&sums)[W][X]) {
  alignas(32) float scales[W][X][kParts];
  for (int i = 0; i < X; ++i)
    for (int j = 0; j < W; ++j) {
      const __m256 scale = _mm256_loadu_ps(x[i].scale + chunk * kParts);
      _mm256_store_ps(scales[j][i], _mm256_mul_ps(w[j]->d, scale));
      if constexpr (Type::kOffset)
        sums[j][i].offset = _mm256_fmadd_ps(w[j]->m, _mm256_loadu_ps(x[i].total + chunk * kParts),
                                            sums[j][i].offset);
    }
  // From memory a number is spread over a register for nothing; within registers it costs two
  // steps.
  asm("" : "+m"(scales));
#pragma GCC unroll 8
  for (int p = 0; p < kParts; ++p) {
    __m256i magnitude[W];
    for (int j = 0; j < W; ++j) magnitude[j] = magnitude_of<Type::kSigned>(w[j]->q[p]);
    for (int i = 0; i < X; ++i) {
      const __m256i bytes = x[i].part(chunk, p);
      for (int j = 0; j < W; ++j) {
        const __m256i pairs = pair_sums<Type::kSigned>(w[j]->q[p], magnitude[j], bytes);
        const __m256 whole = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        __m256& sum = p % 2 ? sums[j][i].odd : sums[j][i].even;
        sum = _mm256_fmadd_ps(whole, _mm256_set1_ps(scales[j][i][p]), sum);
      }
    }
  }
}

template <class Type, int W, int X>
[[gnu::always_inline]] inline void add_products(const CoarseChunk* const (&w)[W],
                                                const ByteRow (&x)[X], int64_t chunk,
                                                Sums (&sums)[W][X]) {
  const auto offset = [&](int j, int i) {
    const int16_t* groups = x[i].sums + chunk * (kChunk / 16);
    return _mm256_madd_epi16(w[j]->t, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(groups)));
  };
  __m256i whole[W][X];
  for (int j = 0; j < W; ++j)
    for (int i = 0; i < X; ++i) {
      whole[j][i] = _mm256_setzero_si256();
      if constexpr (Type::kOffset && !Type::kOwnOffset)
        whole[j][i] = _mm256_sub_epi32(whole[j][i], offset(j, i));
    }
#pragma GCC unroll 8
  for (int p = 0; p < kParts; ++p) {
    __m256i magnitude[W];
    for (int j = 0; j < W; ++j) magnitude[j] = magnitude_of<Type::kSigned>(w[j]->q[p]);
    for (int i = 0; i < X; ++i) {
      const __m256i bytes = x[i].part(chunk, p);
      for (int j = 0; j < W; ++j) {
        const __m256i pairs = pair_sums<Type::kSigned>(w[j]->q[p], magnitude[j], bytes);
        whole[j][i] = _mm256_add_epi32(whole[j][i], _mm256_madd_epi16(pairs, w[j]->s[p]));
        keep_in_register(whole[j][i]);
      }
    }
  }
  for (int j = 0; j < W; ++j)
    for (int i = 0; i < X; ++i) {
      __m256 share = _mm256_mul_ps(_mm256_cvtepi32_ps(whole[j][i]), _mm256_set1_ps(w[j]->d));
      if constexpr (Type::kOwnOffset)
        share = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(offset(j, i)), _mm256_set1_ps(w[j]->e), share);
      sums[j][i].even = _mm256_fmadd_ps(share, _mm256_set1_ps(x[i].scale[chunk]), sums[j][i].even);
    }
}

/// Reads chunk `chunk` of a row; what lies behind the row's end counts as zeros.
template <class Type>
[[gnu::always_inline]] inline void read_chunk(const uint8_t* row, int64_t chunk,
                                              const WeightRows& w, typename Type::Chunk& to) {
  constexpr int kBlocks = std::is_same_v<typename Type::Chunk, FineChunk> ? kParts : 1;
  const uint8_t* from = row + chunk * kBlocks * Type::kBytes;
  const int64_t left = w.row_bytes - chunk * kBlocks * Type::kBytes;
  if (left >= kBlocks * Type::kBytes) [[likely]]
    return Type::read(from, to);
  uint8_t padded[kBlocks * Type::kBytes] = {};
  std::memcpy(padded, from, static_cast<size_t>(left));
  Type::read(padded, to);
}

// How far ahead of its use a weight is asked for; the processor itself stops at the end of a page.
inline constexpr int64_t kAhead = 2048;

/// One row of the weight times X rows of activations, read once: out[i * stride].
template <class Type, int X>
void multiply_vectors(const WeightRows& w, int64_t index, const ByteRow (&x)[X], int64_t chunks,
                      float* out, int64_t stride) {
  using Chunk = typename Type::Chunk;
  constexpr int kBytes = std::is_same_v<Chunk, FineChunk> ? kParts * Type::kBytes : Type::kBytes;
  const uint8_t* from = w.data + index * w.row_bytes;
  Sums sums[1][X];
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (int line = 0; line < kBytes; line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(from + chunk * kBytes + kAhead + line),
                   _MM_HINT_T0);
    Chunk local;
    read_chunk<Type>(from, chunk, w, local);
    const Chunk* const pointers[1] = {&local};
    add_products<Type, 1, X>(pointers, x, chunk, sums);
  }
  for (int i = 0; i < X; ++i) out[i * stride] = sums[0][i].total();
}

/// W unpacked rows, the `chunks` of each one after the other, times X rows of activations:
/// out[i * stride + j].
template <class Type, int W, int X>
void multiply_tile(const typename Type::Chunk* unpacked, const ByteRow (&x)[X], int64_t chunks,
                   float* out, int64_t stride) {
  Sums sums[W][X];
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const typename Type::Chunk* pointers[W];
    for (int j = 0; j < W; ++j) pointers[j] = unpacked + j * chunks + chunk;
    add_products<Type, W, X>(pointers, x, chunk, sums);
  }
  for (int i = 0; i < X; ++i)
    for (int j = 0; j < W; ++j) out[i * stride + j] = sums[j][i].total();
}

#endif

}  // namespace tensora::cpu::TENSORA_ISA

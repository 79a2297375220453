#pragma once

// Internal header: products of float activations with the rows of a weight, for weights without
// whole numbers, and for processors without AVX2 for all others too. As in quant_products.h, a
// result does not depend on how many rows of activations there are.

#include <algorithm>
#include <limits>
#include <utility>

#include "tensora/ops/quant/number_readers.h"
#include "tensora/ops/quant/quant_products.h"

namespace tensora::cpu::TENSORA_ISA {

/// Rows of float activations, padded with zeros to a multiple of 16 numbers.
struct FloatRows {
  const float* data = nullptr;
  int64_t stride = 0;
};

/// What is summed for one element: two sums that do not wait for each other.
struct LaneSums {
  Lanes even = {}, odd = {};
  float total() const { return sum_of(even + odd); }
};

#if defined(__AVX512F__)
// Masked forms where GCC 12 takes the intrinsic's undefined source for an uninitialized variable.
/// Sixteen numbers; as a sum, the even and the odd one of LaneSums in one register.
struct Sixteen {
  __m512 v = _mm512_setzero_ps();
  [[gnu::always_inline]] static Sixteen load(const float* from) { return {_mm512_loadu_ps(from)}; }
  [[gnu::always_inline]] static Sixteen join(Lanes low, Lanes high) {
    return {_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1)};
  }
  [[gnu::always_inline]] void add(const Sixteen& a, const Sixteen& b) {
    v = _mm512_fmadd_ps(a.v, b.v, v);
  }
  float total() const {
    return LaneSums{_mm512_extractf32x8_ps(v, 0), _mm512_extractf32x8_ps(v, 1)}.total();
  }
  /// The totals of four sums, added as total() adds, but side by side.
  [[gnu::always_inline]] static void store_totals(const Sixteen& a, const Sixteen& b,
                                                  const Sixteen& c, const Sixteen& d, float* to) {
    const __m512 eights[2] = {_mm512_add_ps(quarters<0x44>(a.v, b.v), quarters<0xee>(a.v, b.v)),
                              _mm512_add_ps(quarters<0x44>(c.v, d.v), quarters<0xee>(c.v, d.v))};
    const __m512 fours =
        _mm512_add_ps(quarters<0x88>(eights[0], eights[1]), quarters<0xdd>(eights[0], eights[1]));
    const __m512 twos = _mm512_add_ps(fours, _mm512_maskz_permute_ps(0xffff, fours, 0x4e));
    const __m512 ones = _mm512_add_ps(twos, _mm512_maskz_permute_ps(0xffff, twos, 0xb1));
    const __m512i firsts = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
    const __m512 found = _mm512_maskz_permutexvar_ps(0xffff, firsts, ones);
    _mm_storeu_ps(to, _mm512_maskz_extractf32x4_ps(0xf, found, 0));
  }

 private:
  /// Two quarters of a, and two of b.
  template <int which>
  [[gnu::always_inline]] static __m512 quarters(__m512 a, __m512 b) {
    return _mm512_maskz_shuffle_f32x4(0xffff, a, b, which);
  }
};
inline constexpr int kTileX = 6, kTileW = 4;
#else
struct Sixteen {
  Lanes v[16 / kFloatLanes] = {};
  [[gnu::always_inline]] static Sixteen load(const float* from) {
    Sixteen result;
    for (int i = 0; i < 16 / kFloatLanes; ++i) result.v[i] = load_lanes(from + i * kFloatLanes);
    return result;
  }
  [[gnu::always_inline]] void add(const Sixteen& a, const Sixteen& b) {
    for (int i = 0; i < 16 / kFloatLanes; ++i) v[i % 2] += a.v[i] * b.v[i];
  }
  float total() const { return LaneSums{v[0], v[1]}.total(); }
};
inline constexpr int kTileX = 4, kTileW = 1;
#endif

/// Numbers k to k + 16 of a row.
template <class Reader>
[[gnu::always_inline]] inline Sixteen sixteen_at(const uint8_t* row, int64_t k) {
#if defined(__AVX512F__)
  const uint8_t* const from = row + k * Reader::kBytes;
  const auto words = [&] { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); };
  if constexpr (std::is_same_v<Reader, ElementReader<float>>)
    return Sixteen::load(reinterpret_cast<const float*>(from));
  else if constexpr (std::is_same_v<Reader, ElementReader<Half>>)
    return {_mm512_maskz_cvtph_ps(0xffff, words())};
  else if constexpr (std::is_same_v<Reader, ElementReader<BFloat16>>)
    return {_mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, words()), 16))};
  else
    return Sixteen::join(Reader::at(row, k), Reader::at(row, k + kFloatLanes));
#else
  Sixteen result;
  for (int i = 0; i < 16 / kFloatLanes; ++i) result.v[i] = Reader::at(row, k + i * kFloatLanes);
  return result;
#endif
}
/// The last numbers of a row, and zeros.
template <class Reader>
[[gnu::noinline]] Sixteen last_of(const uint8_t* row, int64_t k, int64_t columns) {
  alignas(64) float numbers[16];
  read_numbers<Reader>(row, k, columns - k, numbers);
  return Sixteen::load(numbers);
}

/// Adds the products of a vector of each row.
template <int W, int X>
[[gnu::always_inline]] inline void add_lanes(const Lanes (&w)[W], const float* const (&x)[X],
                                             int64_t k, Lanes (&sums)[W][X]) {
  for (int i = 0; i < X; ++i) {
    const Lanes b = load_lanes(x[i] + k);
    for (int j = 0; j < W; ++j) sums[j][i] += w[j] * b;
  }
}
/// Keeps a vector that is used several times from being loaded as often.
[[gnu::always_inline]] inline void keep_in_register(Lanes& lanes) {
#if defined(__AVX2__)
  asm("" : "+x"(lanes));
#else
  (void)lanes;
#endif
}

template <class Reader>
class FloatProducts {
 public:
  FloatProducts(const WeightRows& w, const FloatRows& x, int64_t count)
      : w_(w), x_(x), count_(count) {}

  /// Rows first to last of the weight times all rows of activations: out[i * stride + j - first].
  void multiply(int64_t first, int64_t last, float* out, int64_t stride) const {
    if (count_ > kMostInTiles) return panels(first, last, out, stride);
    for (int64_t i = 0; i < count_; i += kTileX) {
      float* const to = out + i * stride;
      const auto tiles_of = [&]<size_t... X>(std::index_sequence<X...>) {
        const auto left = static_cast<size_t>(std::min<int64_t>(kTileX, count_ - i));
        ((left == X + 1 ? tiles<X + 1>(first, last, i, to, stride) : void()), ...);
      };
      tiles_of(std::make_index_sequence<kTileX>());
    }
  }

 private:
  // The weight's numbers that are widened at a time: those of a tile stay in the first cache.
  static constexpr int64_t kPiece = 1024;
  static constexpr int64_t kPanel = 96;  // rows of activations whose sums do
  static constexpr int kTileRows = 3;
  static constexpr int64_t kAhead = 2048;  // how far a weight is asked for before its use, in bytes

  // Up to this many rows of activations a weight's numbers are widened as they are read. With
  // enough registers, that is free for elements.
  static constexpr int64_t kMostInTiles = kTileW > 1 && Reader::kBytes > 1
                                              ? std::numeric_limits<int64_t>::max()
                                              : 8;

  // X rows of activations, from `row` on.
  template <int X>
  void tiles(int64_t first, int64_t last, int64_t row, float* out, int64_t stride) const {
    int64_t j = first;
    constexpr int kW = X <= 4 ? 1 : kTileW;  // few rows wait for memory, read in its order
    for (; j + kW <= last; j += kW) tile<kW, X>(j, row, out + (j - first), stride);
    for (; j < last; ++j) tile<1, X>(j, row, out + (j - first), stride);
  }
  template <int W, int X>
  void tile(int64_t j, int64_t row, float* out, int64_t stride) const {
    const float* x[X];
    const uint8_t* w[W];
    Sixteen sums[W][X];
    for (int i = 0; i < X; ++i) x[i] = x_.data + (row + i) * x_.stride;
    for (int i = 0; i < W; ++i) w[i] = w_.data + (j + i) * w_.row_bytes;
    const auto add = [&](const Sixteen(&numbers)[W], int64_t k) {
      for (int i = 0; i < X; ++i) {
        const Sixteen b = Sixteen::load(x[i] + k);
        for (int r = 0; r < W; ++r) sums[r][i].add(numbers[r], b);
      }
    };
    // Rows that are short are asked for while those before them are read.
    const int64_t ahead = W > 1 && W * w_.row_bytes <= (16 << 10) ? W * w_.row_bytes : kAhead;
    int64_t k = 0;
    for (; k + 16 <= w_.columns; k += 16) {
      Sixteen numbers[W];
      for (int r = 0; r < W; ++r) {
        if constexpr (Reader::kBytes > 0) __builtin_prefetch(w[r] + k * Reader::kBytes + ahead);
        numbers[r] = sixteen_at<Reader>(w[r], k);
      }
      add(numbers, k);
    }
    if (k < w_.columns) {
      Sixteen numbers[W];
      for (int r = 0; r < W; ++r) numbers[r] = last_of<Reader>(w[r], k, w_.columns);
      add(numbers, k);
    }
    for (int i = 0; i < X; ++i) {
#if defined(__AVX512F__)
      if constexpr (W == 4) {
        Sixteen::store_totals(sums[0][i], sums[1][i], sums[2][i], sums[3][i], out + i * stride);
        continue;
      }
#endif
      for (int r = 0; r < W; ++r) out[i * stride + r] = sums[r][i].total();
    }
  }

  void panels(int64_t first, int64_t last, float* out, int64_t stride) const {
    for (int64_t begin = 0; begin < count_; begin += kPanel) {
      const int64_t rows = std::min(kPanel, count_ - begin);
      int64_t j = first;
      for (; j + kTileRows <= last; j += kTileRows)
        panel<kTileRows>(j, begin, rows, out + (j - first), stride);
      for (; j < last; ++j) panel<1>(j, begin, rows, out + (j - first), stride);
    }
  }

  // W rows of the weight times a panel of activations, piece by piece.
  template <int W>
  void panel(int64_t row, int64_t begin, int64_t rows, float* out, int64_t stride) const {
    LaneSums sums[kPanel][W];
    for (int64_t k = 0; k < w_.columns; k += kPiece) {
      alignas(64) float numbers[W][kPiece];
      const int64_t count = std::min(kPiece, w_.columns - k);
      for (int j = 0; j < W; ++j)
        read_numbers<Reader>(w_.data + (row + j) * w_.row_bytes, k, count, numbers[j]);
      int64_t i = 0;
      for (; i + 2 <= rows; i += 2) add_piece<W, 2>(numbers, k, count, begin + i, &sums[i]);
      if (i < rows) add_piece<W, 1>(numbers, k, count, begin + i, &sums[i]);
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int j = 0; j < W; ++j) out[(begin + i) * stride + j] = sums[i][j].total();
  }

  template <int W, int X>
  void add_piece(const float (&numbers)[W][kPiece], int64_t k, int64_t count, int64_t row,
                 LaneSums (*sums)[W]) const {
    const float* x[X];
    Lanes even[W][X], odd[W][X];
    for (int i = 0; i < X; ++i) {
      x[i] = x_.data + (row + i) * x_.stride + k;
      for (int j = 0; j < W; ++j) {
        even[j][i] = sums[i][j].even;
        odd[j][i] = sums[i][j].odd;
      }
    }
    for (int64_t at = 0; at < count; at += 2 * kFloatLanes) {
      Lanes low[W], high[W];
      for (int j = 0; j < W; ++j) keep_in_register(low[j] = load_lanes(numbers[j] + at));
      add_lanes<W, X>(low, x, at, even);
      for (int j = 0; j < W; ++j)
        keep_in_register(high[j] = load_lanes(numbers[j] + at + kFloatLanes));
      add_lanes<W, X>(high, x, at + kFloatLanes, odd);
    }
    for (int i = 0; i < X; ++i)
      for (int j = 0; j < W; ++j) sums[i][j] = {even[j][i], odd[j][i]};
  }

  const WeightRows& w_;
  const FloatRows& x_;
  const int64_t count_;
};

}  // namespace tensora::cpu::TENSORA_ISA

#pragma once

// Internal header: products of float activations with the rows of a weight, for weights without
// whole numbers, and for processors without AVX2 for all others too. As in quant_products.h, a
// result does not depend on how many rows of activations there are.

#include <algorithm>

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
    switch (count_) {
      case 1:
        return vectors<1>(first, last, out, stride);
      case 2:
        return vectors<2>(first, last, out, stride);
      case 3:
        return vectors<3>(first, last, out, stride);
      default:
        return panels(first, last, out, stride);
    }
  }

 private:
  // The weight's numbers that are widened at a time: those of a tile stay in the first cache.
  static constexpr int64_t kPiece = 1024;
  static constexpr int64_t kPanel = 96;  // rows of activations whose sums do
  static constexpr int kTileRows = 3;
  static constexpr int64_t kAhead = 2048;  // how far a weight is asked for before its use, in bytes

  // Few rows of activations: the weight is read once.
  template <int X>
  void vectors(int64_t first, int64_t last, float* out, int64_t stride) const {
    const float* x[X];
    for (int i = 0; i < X; ++i) x[i] = x_.data + i * x_.stride;
    for (int64_t j = first; j < last; ++j) {
      const uint8_t* row = w_.data + j * w_.row_bytes;
      Lanes even[1][X] = {}, odd[1][X] = {};
      int64_t k = 0;
      for (; k + 2 * kFloatLanes <= w_.columns; k += 2 * kFloatLanes) {
        if constexpr (Reader::kBytes > 0) __builtin_prefetch(row + k * Reader::kBytes + kAhead);
        const Lanes low[1] = {Reader::at(row, k)}, high[1] = {Reader::at(row, k + kFloatLanes)};
        add_lanes<1, X>(low, x, k, even);
        add_lanes<1, X>(high, x, k + kFloatLanes, odd);
      }
      for (; k < w_.columns; k += kFloatLanes) {
        const Lanes rest[1] = {k + kFloatLanes <= w_.columns
                                   ? Reader::at(row, k)
                                   : read_tail<Reader>(row, k, w_.columns)};
        add_lanes<1, X>(rest, x, k, k / kFloatLanes % 2 ? odd : even);
      }
      for (int i = 0; i < X; ++i)
        out[i * stride + j - first] = LaneSums{even[0][i], odd[0][i]}.total();
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

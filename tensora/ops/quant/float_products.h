#pragma once

// Internal header: products of float activations with the rows of a weight, for weights without
// whole numbers, and for processors without AVX2 for all others too. As in quant_products.h, a
// result does not depend on how many rows of activations there are.

#include <algorithm>
#include <cstring>

#include "tensora/backend/cpu/convert.h"
#include "tensora/ops/quant/blocks.h"
#include "tensora/ops/quant/quant_products.h"

namespace tensora::cpu::TENSORA_ISA {

inline constexpr int kLanes = 8;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

// By reference: without AVX such a vector cannot be returned.
[[gnu::always_inline]] inline void load_lanes(const float* from, Lanes& to) {
  std::memcpy(&to, from, sizeof to);
}

/// What is summed for one element: two sums that do not wait for each other.
struct LaneSums {
  Lanes even = {}, odd = {};
  [[gnu::always_inline]] float total() const {
    const Lanes both = even + odd;
    const float a = both[0] + both[4], b = both[1] + both[5], c = both[2] + both[6],
                d = both[3] + both[7];
    return (a + c) + (b + d);
  }
};

/// The numbers of a row from `begin` on, as floats; `begin` is the first of a block.
template <class T>
void read_elements(const uint8_t* row, int64_t begin, int64_t count, float* to) {
  load_tile<T, float>(row + begin * static_cast<int64_t>(sizeof(T)), 1, count, to);
}
template <class Block>
void read_blocks(const uint8_t* row, int64_t begin, int64_t count, float* to) {
  const auto* blocks = reinterpret_cast<const Block*>(row) + begin / Block::kNumbers;
  for (int64_t b = 0; b < count / Block::kNumbers; ++b)
    for (int i = 0; i < Block::kNumbers; ++i) to[b * Block::kNumbers + i] = blocks[b].number(i);
}
using ReadNumbers = void (*)(const uint8_t* row, int64_t begin, int64_t count, float* to);

inline ReadNumbers reader_of(DType dtype) {
  if (is_quantized(dtype)) {
    ReadNumbers read = nullptr;
    visit_block(dtype, [&]<class Block>() { read = read_blocks<Block>; });
    return read;
  }
  return visit_element(dtype, []<class T>() -> ReadNumbers {
    if constexpr (is_complex_type<T>)
      return nullptr;
    else
      return read_elements<T>;
  });
}

// Numbers that are widened at a time: those of a few rows stay in the first cache.
inline constexpr int64_t kPiece = 1024;

/// Adds `count` numbers' products; count is a multiple of 16.
template <int W, int X>
[[gnu::always_inline]] inline void add_lanes(const float* const (&w)[W], const float* const (&x)[X],
                                             int64_t count, LaneSums (&sums)[W][X]) {
  for (int64_t k = 0; k < count; k += 2 * kLanes) {
    for (int half = 0; half < 2; ++half) {
      Lanes a[W];
      for (int j = 0; j < W; ++j) load_lanes(w[j] + k + half * kLanes, a[j]);
      for (int i = 0; i < X; ++i) {
        Lanes b;
        load_lanes(x[i] + k + half * kLanes, b);
        for (int j = 0; j < W; ++j) (half ? sums[j][i].odd : sums[j][i].even) += a[j] * b;
      }
    }
  }
}

/// Rows of float activations, padded with zeros to a multiple of 16 numbers.
struct FloatRows {
  const float* data = nullptr;
  int64_t stride = 0;
};

/// Rows first to last of the weight times `count` rows of activations: out[i * stride + j - first].
class FloatProducts {
 public:
  FloatProducts(const WeightRows& w, ReadNumbers read, const FloatRows& x, int64_t count)
      : w_(w), read_(read), x_(x), count_(count) {}

  void multiply(int64_t first, int64_t last, float* out, int64_t stride) const {
    int64_t j = first;
    if (count_ >= kManyRows)
      for (; j + kTileRows <= last; j += kTileRows) panels<kTileRows>(j, out + (j - first), stride);
    for (; j < last; ++j) panels<1>(j, out + (j - first), stride);
  }

 private:
  static constexpr int64_t kManyRows = 3, kPanel = 96;
  static constexpr int kTileRows = 3;

  template <int W>
  void panels(int64_t row, float* out, int64_t stride) const {
    for (int64_t begin = 0; begin < count_; begin += kPanel) {
      const int64_t rows = std::min(kPanel, count_ - begin);
      LaneSums sums[kPanel][W];
      for (int64_t k = 0; k < w_.columns; k += kPiece) piece<W>(row, k, begin, rows, sums);
      for (int64_t i = 0; i < rows; ++i)
        for (int j = 0; j < W; ++j) out[(begin + i) * stride + j] = sums[i][j].total();
    }
  }

  template <int W>
  void piece(int64_t row, int64_t k, int64_t begin, int64_t rows,
             LaneSums (&sums)[kPanel][W]) const {
    alignas(64) float numbers[W][kPiece];
    const int64_t count = std::min(kPiece, w_.columns - k);
    const int64_t padded = (count + 15) / 16 * 16;
    const float* pointers[W];
    for (int j = 0; j < W; ++j) {
      read_(w_.data + (row + j) * w_.row_bytes, k, count, numbers[j]);
      std::fill(numbers[j] + count, numbers[j] + padded, 0.0f);
      pointers[j] = numbers[j];
    }
    int64_t i = 0;
    for (; i + 2 <= rows; i += 2) rows_of<W, 2>(pointers, k, begin, i, padded, sums);
    if (i < rows) rows_of<W, 1>(pointers, k, begin, i, padded, sums);
  }

  template <int W, int X>
  [[gnu::always_inline]] void rows_of(const float* const (&w)[W], int64_t k, int64_t begin,
                                      int64_t i, int64_t padded,
                                      LaneSums (&sums)[kPanel][W]) const {
    const float* x[X];
    LaneSums local[W][X];
    for (int r = 0; r < X; ++r) {
      x[r] = x_.data + (begin + i + r) * x_.stride + k;
      for (int j = 0; j < W; ++j) local[j][r] = sums[i + r][j];
    }
    add_lanes<W, X>(w, x, padded, local);
    for (int r = 0; r < X; ++r)
      for (int j = 0; j < W; ++j) sums[i + r][j] = local[j][r];
  }

  const WeightRows& w_;
  const ReadNumbers read_;
  const FloatRows& x_;
  const int64_t count_;
};

}  // namespace tensora::cpu::TENSORA_ISA

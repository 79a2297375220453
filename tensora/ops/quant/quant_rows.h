#pragma once

// Internal header: activations, prepared once, times rows of weights of any dtype.

#include <optional>

#include "tensora/backend/cpu/scratch.h"
#include "tensora/core/view.h"
#include "tensora/ops/quant/float_products.h"

namespace tensora::cpu::TENSORA_ISA {

/// Activations in the forms that weights of different dtypes are multiplied by.
class Activations {
 public:
  /// x: … K, contiguous, of a floating dtype.
  explicit Activations(const View& x);
  /// Makes what products with weights of `dtype` need. Not to be called by several threads at once.
  void prepare(DType dtype);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  /// Rows first to last of the weight times all rows of x: out[i * stride + j - first]. May be
  /// called by several threads.
  void multiply(DType dtype, const WeightRows& w, int64_t first, int64_t last, float* out,
                int64_t stride) const;

 private:
  void widen();
  void multiply_floats(DType dtype, const WeightRows& w, int64_t first, int64_t last, float* out,
                       int64_t stride) const;

  const View& x_;
  const int64_t rows_, columns_;
  FloatRows floats_;
  std::optional<HostScratch<float>> wide_;
#if defined(__AVX2__)
  struct Bytes {
    Bytes(int64_t rows, int64_t chunks, int64_t parts);
    HostScratch<int8_t> q;
    HostScratch<float> scale, total;
    HostScratch<int16_t> sums;
    HostScratch<int32_t> bias;
    std::optional<HostScratch<int8_t>> parted;  // magnitudes, then flips
    std::optional<HostScratch<int32_t>> below;
    ByteRows view;
    void part_signs(int64_t rows);
  };
  template <class Type>
  void multiply_by(const WeightRows& w, int64_t first, int64_t last, float* out,
                   int64_t stride) const;
  std::optional<Bytes> fine_, coarse_;
#endif
};

/// A matrix with contiguous rows.
inline WeightRows weight_rows(const View& weight) {
  return {.data = weight.as<const uint8_t>(),
          .row_bytes = bytes_of(weight.dtype, weight.sizes[1]),
          .rows = weight.sizes[0],
          .columns = weight.sizes[1]};
}

// Rows of a weight whose results are finished together.
inline constexpr int64_t kRowsAtOnce = 32;

/// How many rows of a weight make a task that is worth another thread.
inline int64_t rows_per_task(const WeightRows& w, int64_t rows_of_x) {
  constexpr int64_t kBytesPerTask = 24 << 10;
  const int64_t work = std::max<int64_t>(1, w.row_bytes * std::max<int64_t>(1, rows_of_x / 2));
  return std::max<int64_t>(kRowsAtOnce, kBytesPerTask / work / kRowsAtOnce * kRowsAtOnce);
}

}  // namespace tensora::cpu::TENSORA_ISA

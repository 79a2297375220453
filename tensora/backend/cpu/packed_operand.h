#pragma once

#include "tensora/backend/cpu/gemm_kernels.h"
#include "tensora/backend/cpu/scratch.h"

namespace tensora::cpu {

/// The right operand b[k, n] of many products of floats, packed once.
///
/// Its columns are divided into panels. An element of a product is summed in one order, whichever
/// panels are computed together.
class PackedOperand {
 public:
  PackedOperand(MatrixView<const float> b, int64_t k, int64_t n);

  int64_t panels() const { return panels_; }
  /// Where a panel begins; that of panels() is n.
  int64_t column(int64_t panel) const { return panel < panels_ ? panel * panel_width_ : n_; }
  /// out[m, columns of panels begin..end] = a[m, k] @ b there, on the calling thread; `out` holds
  /// those columns alone.
  void multiply(MatrixView<const float> a, int64_t m, int64_t begin, int64_t end, float* out,
                int64_t out_row_stride) const;

 private:
  int64_t k_, n_, panels_, panel_width_;
  HostScratch<float> data_;
};

}  // namespace tensora::cpu

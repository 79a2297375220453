#pragma once

// Walking several strided arrays in step: shared by the pointwise loop, copies and gathers.

#include <cstdint>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/small_vector.h"
#include "tensora/core/view.h"

namespace tensora::cpu::TENSORA_ISA {

inline constexpr int kMaxWalked = 10;

/// The common index space of an output (array 0) and operands broadcast to it, with dims ordered by
/// the output's strides and adjacent dims merged where the strides of all arrays allow it.
class Walk {
 public:
  Walk() = default;
  explicit Walk(std::span<const View* const> views);

  /// Whether array k is contiguous in the order of the walk.
  bool is_linear(int k) const;
  int64_t numel() const { return numel_; }
  int dim() const { return dims_; }
  int64_t size(int d) const { return sizes_[d]; }
  int64_t stride(int k, int d) const { return strides_[k][d]; }

  /// Elements [start, start + n) of the walk, read from array k, converted by `load` into `to`.
  void gather(int k, const char* data, size_t element_bytes, int64_t start, int64_t n, LoadFn load,
              char* to, size_t to_bytes) const;
  /// The reverse: writes contiguous values into array k.
  void scatter(int k, char* data, size_t element_bytes, int64_t start, int64_t n, StoreFn store,
               const char* from, size_t from_bytes) const;

 private:
  template <class Run>
  void each_run(int k, int64_t start, int64_t n, Run&& run) const;

  int dims_ = 0;
  int64_t numel_ = 1;
  int64_t sizes_[kMaxDims];  // unset beyond dims_, as are the strides
  int64_t strides_[kMaxWalked][kMaxDims];
  int count_ = 0;
};

}  // namespace tensora::cpu::TENSORA_ISA

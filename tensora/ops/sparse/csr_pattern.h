#pragma once

// Internal header: the indices of a sparse matrix as the kernels of the CPU read them.

#include <algorithm>
#include <string_view>

#include "tensora/core/view.h"

namespace tensora::cpu::TENSORA_ISA {

/// The entries of an M x K matrix by rows. The constructor checks all of `crow`, so that every row
/// is a range of entries; `check_columns` the columns of some.
struct CsrPattern {
  CsrPattern(std::string_view op_name, const View& crow_view, const View& col_view, int64_t k)
      : op(op_name),
        crow(crow_view.as<const int64_t>()),
        col(col_view.as<const int64_t>()),
        rows(crow_view.numel - 1),
        columns(k),
        nnz(col_view.numel) {
    bool ascends = true;
    for (int64_t i = 0; i < rows; ++i) ascends &= crow[i] <= crow[i + 1];
    check(ascends && crow[0] == 0 && crow[rows] == nnz, op,
          ": crow_indices must ascend from 0 to the number of entries, ", nnz);
  }

  void check_columns(int64_t begin, int64_t end) const {
    uint64_t largest = 0;  // a negative index is a large one without sign
    for (int64_t e = begin; e < end; ++e)
      largest = std::max(largest, static_cast<uint64_t>(col[e]));
    if (end > begin && largest >= static_cast<uint64_t>(columns)) [[unlikely]]
      fail(op, ": column index ", static_cast<int64_t>(largest),
           " is out of bounds for a matrix of ", columns, " columns");
  }
  /// The first row of the part of the work that begins at `at`, where row i costs one more than it
  /// has entries.
  int64_t row_at(int64_t at) const {
    int64_t low = 0, high = rows;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (crow[middle] + middle < at)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  int64_t work() const { return nnz + rows; }

  std::string_view op;
  const int64_t *crow, *col;
  int64_t rows, columns, nnz;
};

}  // namespace tensora::cpu::TENSORA_ISA

#pragma once

// Internal header
// Tensors whose elements follow from their position: each struct gives the value of element i, on
// the host and inside CUDA kernels. `V` is double for floating dtypes and int64 for the others.

#include "tensora/base/host_device.h"
#include "tensora/core/scalar.h"

#if !defined(__CUDACC__)
#include <cmath>
#endif

namespace tensora {

struct Arange {
  Scalar start = 0, step = 1;

  template <class V>
  TENSORA_HD V at(long long i) const {
    return start.to<V>() + static_cast<V>(i) * step.to<V>();
  }
};

struct Linspace {
  Scalar start = 0, end = 0;
  long steps = 1;

  // From both ends towards the middle, so that the last element is `end` itself.
  TENSORA_HD double position(long long i) const {
    const double first = start.to<double>(), last = end.to<double>();
    const double step = steps > 1 ? (last - first) / static_cast<double>(steps - 1) : 0;
    return i < steps / 2 || steps == 1 ? first + step * static_cast<double>(i)
                                       : last - step * static_cast<double>(steps - 1 - i);
  }
  template <class V>
  TENSORA_HD V at(long long i) const {
    return static_cast<V>(position(i));
  }
};

struct Logspace {
  Scalar start = 0, end = 0;
  long steps = 1;
  double base = 10;

  template <class V>
  TENSORA_HD V at(long long i) const {
    return static_cast<V>(::pow(base, Linspace{start, end, steps}.position(i)));
  }
};

struct Eye {
  long columns = 1;

  template <class V>
  TENSORA_HD V at(long long i) const {
    return static_cast<V>(i / columns == i % columns);
  }
};

/// The coordinates of a triangle's elements in row-major order: first all rows, then all columns.
struct TriangleIndices {
  long rows = 0, columns = 0, diagonal = 0;
  bool lower = true;

  /// How many elements the first `row` rows of the lower triangle have.
  TENSORA_HD long below(long row) const {
    // Row r holds clamp(r + diagonal + 1, 0, columns) elements: none, then growing by one, then
    // all.
    const long grow_from = clamp(-diagonal, 0, row);
    const long full_from = clamp(columns - diagonal - 1, grow_from, row);
    const long first = grow_from + diagonal + 1, growing = full_from - grow_from;
    return growing * first + growing * (growing - 1) / 2 + (row - full_from) * columns;
  }
  /// The same for the triangle that is asked for; the upper one is the rest of the row.
  TENSORA_HD long before(long row) const {
    if (lower) return below(row);
    TriangleIndices rest = *this;
    rest.diagonal = diagonal - 1;
    return row * columns - rest.below(row);
  }
  TENSORA_HD long count() const { return before(rows); }

  template <class V>
  TENSORA_HD V at(long long i) const {
    const long total = count(), k = static_cast<long>(i) % total;
    long low = 0, high = rows - 1;  // the last row that begins at or before k
    while (low < high) {
      const long middle = low + (high - low + 1) / 2;
      if (before(middle) <= k)
        low = middle;
      else
        high = middle - 1;
    }
    if (i < total) return static_cast<V>(low);
    const long first = lower ? 0 : clamp(low + diagonal, 0, columns);
    return static_cast<V>(first + k - before(low));
  }

 private:
  TENSORA_HD static long clamp(long value, long low, long high) {
    return value < low ? low : value > high ? high : value;
  }
};

}  // namespace tensora

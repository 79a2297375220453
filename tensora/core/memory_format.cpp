#include "tensora/core/memory_format.h"

#include <algorithm>

namespace tensora {
namespace {

// Dim k of N C L… from the innermost of the channels-last order on: C, the last L …, N.
int from_innermost(int k, int dims) { return k == 0 ? 1 : k == dims - 1 ? 0 : dims - k; }

}  // namespace

Strides channels_last_strides(const Shape& sizes) {
  Strides strides = sizes;
  int64_t step = 1;
  for (int k = 0; k < sizes.size(); ++k) {
    const int d = from_innermost(k, sizes.size());
    strides[d] = step;
    step *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

bool is_channels_last(const Shape& sizes, const Strides& strides) {
  const int dims = sizes.size();
  if (dims < 3 || strides[1] == 0) return false;
  int64_t least = 0;
  for (int k = 0; k < dims; ++k) {
    const int d = from_innermost(k, dims);
    if (sizes[d] == 0 || strides[d] < least) return false;
    if (d == 0 && least == strides[1]) return false;  // one position, one channel
    least = strides[d] * std::max<int64_t>(sizes[d], 1);
  }
  return true;
}

bool has_format(const Shape& sizes, const Strides& strides, MemoryFormat format) {
  ensure(format != MemoryFormat::preserve, "has_format: asked for preserve");
  if (format == MemoryFormat::contiguous) return is_contiguous(sizes, strides);
  const int dims = sizes.size();
  if (dims != (format == MemoryFormat::channels_last ? 4 : 5)) return false;
  int64_t expected = 1;
  for (int k = 0; k < dims; ++k) {
    const int d = from_innermost(k, dims);
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

}  // namespace tensora

#pragma once

// Internal header
// Arrays of one shape as lines along one dim: what softmax and its like compute line by line.

#include "tensora/core/view.h"

namespace tensora {

/// How K arrays lie along one dim and across the others. Array 0 is the output. Strides are in
/// bytes; the dims across are innermost first, and merged where all arrays allow it.
template <int K>
struct Lines {
  int64_t length = 1, count = 1;
  int64_t step[K] = {};  // from one element of a line to the next
  int dims = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t strides[K][kMaxDims] = {};
  char* data[K] = {};

  /// Where line number `line` of array k begins.
  char* line_of(int k, int64_t line) const {
    char* at = data[k];
    for (int d = 0; d + 1 < dims; ++d) {
      at += line % sizes[d] * strides[k][d];
      line /= sizes[d];
    }
    return dims > 0 ? at + line * strides[k][dims - 1] : at;
  }
};

template <int K>
Lines<K> make_lines(const View* const (&views)[K], int dim) {
  Lines<K> lines;
  int64_t bytes[K];
  for (int k = 0; k < K; ++k) {
    bytes[k] = static_cast<int64_t>(element_size(views[k]->dtype));
    lines.data[k] = views[k]->template as<char>();
  }
  const View& out = *views[0];
  for (int d = out.dim() - 1; d >= 0; --d) {
    if (d == dim) {
      lines.length = out.sizes[d];
      for (int k = 0; k < K; ++k) lines.step[k] = views[k]->strides[d] * bytes[k];
      continue;
    }
    if (out.sizes[d] == 1) continue;
    lines.count *= out.sizes[d];
    const int last = lines.dims - 1;
    bool merges = last >= 0;
    for (int k = 0; k < K && merges; ++k)
      merges = views[k]->strides[d] * bytes[k] == lines.strides[k][last] * lines.sizes[last];
    if (merges) {
      lines.sizes[last] *= out.sizes[d];
      continue;
    }
    lines.sizes[lines.dims] = out.sizes[d];
    for (int k = 0; k < K; ++k) lines.strides[k][lines.dims] = views[k]->strides[d] * bytes[k];
    ++lines.dims;
  }
  return lines;
}

}  // namespace tensora

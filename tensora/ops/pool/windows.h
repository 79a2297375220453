#pragma once

// Internal header: which input positions belong to an output of a pooling op. Shared by all
// kernels; 1-D and 2-D pooling is 3-D pooling with leading dims of size 1.

#include <cstdint>

#include "tensora/base/host_device.h"

namespace tensora::pool {

/// The windows along one dim: `kernel` positions, `dilation` apart, every `stride`; or, if
/// `adaptive`, the input divided into `out` parts of nearly equal length, which may overlap by one.
struct WindowDim {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool adaptive = false;

  /// Where window `o` begins; negative if that is in the padding.
  TENSORA_HD int64_t start(int64_t o) const {
    return adaptive ? o * in / out : o * stride - padding;
  }
  /// The first position of window `o` that is in the input.
  TENSORA_HD int64_t first(int64_t o) const {
    const int64_t begin = start(o);
    return begin >= 0 ? begin : begin + (-begin + dilation - 1) / dilation * dilation;
  }
  /// One past the last position of window `o` that is in the input.
  TENSORA_HD int64_t end(int64_t o) const {
    if (adaptive) return ((o + 1) * in + out - 1) / out;
    const int64_t past = o * stride - padding + (kernel - 1) * dilation + 1;
    return past < in ? past : in;
  }
  /// How many positions window `o` has, those in the padding included.
  TENSORA_HD int64_t padded_size(int64_t o) const {
    if (adaptive) return end(o) - start(o);
    const int64_t past = o * stride - padding + kernel;
    return (past < in + padding ? past : in + padding) - start(o);
  }
  /// The windows that can contain input position `i`: from first_window to end_window.
  TENSORA_HD int64_t first_window(int64_t i) const {
    if (adaptive) return i * out / in;
    const int64_t reach = (kernel - 1) * dilation + 1, at = i + padding;
    return at < reach ? 0 : (at - reach) / stride + 1;
  }
  TENSORA_HD int64_t end_window(int64_t i) const {
    if (adaptive) return ((i + 1) * out + in - 1) / in;
    const int64_t past = (i + padding) / stride + 1;
    return past < out ? past : out;
  }
};

struct Windows {
  WindowDim dims[3];  // depth, height, width

  /// The first position of a window, in row-major order. A dilated window may jump over a small
  /// input; it then has the input's last position, so that an index is always valid.
  TENSORA_HD int64_t first_place(int64_t d, int64_t h, int64_t w) const {
    const int64_t at[3] = {d, h, w};
    int64_t place = 0;
    for (int k = 0; k < 3; ++k) {
      const int64_t first = dims[k].first(at[k]);
      place = place * dims[k].in + (first < dims[k].in ? first : dims[k].in - 1);
    }
    return place;
  }
};

/// What the sum over a window is divided by.
struct Divisor {
  bool count_padding = true;
  int64_t fixed = 0;  // 0: the number of positions

  TENSORA_HD int64_t of(const Windows& windows, int64_t d, int64_t h, int64_t w) const {
    if (fixed != 0) return fixed;
    const int64_t at[3] = {d, h, w};
    int64_t product = 1;
    for (int k = 0; k < 3; ++k) {
      const WindowDim& dim = windows.dims[k];
      product *= count_padding ? dim.padded_size(at[k]) : dim.end(at[k]) - dim.first(at[k]);
    }
    return product;
  }
};

}  // namespace tensora::pool

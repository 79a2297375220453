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

  // Positions are of any integer type `I`: kernels on a GPU count in 32 bits.

  /// Where window `o` begins; negative if that is in the padding.
  template <class I>
  TENSORA_HD I start(I o) const {
    return adaptive ? static_cast<I>(o * in / out)
                    : o * static_cast<I>(stride) - static_cast<I>(padding);
  }
  /// The first position of window `o` that is in the input.
  template <class I>
  TENSORA_HD I first(I o) const {
    const I begin = start(o), step = static_cast<I>(dilation);
    return begin >= 0 ? begin : begin + (-begin + step - 1) / step * step;
  }
  /// One past the last position of window `o` that is in the input.
  template <class I>
  TENSORA_HD I end(I o) const {
    if (adaptive) return static_cast<I>(((o + 1) * in + out - 1) / out);
    const I past = o * static_cast<I>(stride) - static_cast<I>(padding) +
                   static_cast<I>((kernel - 1) * dilation + 1);
    return past < static_cast<I>(in) ? past : static_cast<I>(in);
  }
  /// How many positions window `o` has, those in the padding included.
  template <class I>
  TENSORA_HD I padded_size(I o) const {
    if (adaptive) return end(o) - start(o);
    const I past = o * static_cast<I>(stride) + static_cast<I>(kernel - padding);
    const I most = static_cast<I>(in + padding);
    return (past < most ? past : most) - start(o);
  }
  /// The windows that can contain input position `i`: from first_window to end_window.
  template <class I>
  TENSORA_HD I first_window(I i) const {
    if (adaptive) return static_cast<I>(i * out / in);
    const I reach = static_cast<I>((kernel - 1) * dilation + 1), at = i + static_cast<I>(padding);
    return at < reach ? 0 : (at - reach) / static_cast<I>(stride) + 1;
  }
  template <class I>
  TENSORA_HD I end_window(I i) const {
    if (adaptive) return static_cast<I>(((i + 1) * out + in - 1) / in);
    const I past = (i + static_cast<I>(padding)) / static_cast<I>(stride) + 1;
    return past < static_cast<I>(out) ? past : static_cast<I>(out);
  }
};

struct Windows {
  WindowDim dims[3];  // depth, height, width

  /// The first position of a window, in row-major order. A dilated window may jump over a small
  /// input; it then has the input's last position, so that an index is always valid.
  template <class I>
  TENSORA_HD int64_t first_place(I d, I h, I w) const {
    const I at[3] = {d, h, w};
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

  template <class I>
  TENSORA_HD int64_t of(const Windows& windows, I d, I h, I w) const {
    if (fixed != 0) return fixed;
    const I at[3] = {d, h, w};
    int64_t product = 1;
    for (int k = 0; k < 3; ++k) {
      const WindowDim& dim = windows.dims[k];
      product *= count_padding ? dim.padded_size(at[k]) : dim.end(at[k]) - dim.first(at[k]);
    }
    return product;
  }
};

}  // namespace tensora::pool

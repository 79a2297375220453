#pragma once

// Internal header: from a coordinate of a grid to the elements around it, along one axis.

#include <cstdint>

#include "tensora/base/host_device.h"
#include "tensora/base/math.h"
#include "tensora/ops/resample/grid_modes.h"

namespace tensora::resample {

inline constexpr int kMaxTaps = 4;

/// `count` elements with their weights, and the derivatives of these by the coordinate. An element
/// outside of the input has index -1 and counts as zero.
template <class C>
struct AxisTaps {
  int count = 1;
  int64_t index[kMaxTaps] = {};
  C weight[kMaxTaps] = {C(1)};
  C slope[kMaxTaps] = {};
};

template <class C>
struct GridAxis {
  int64_t size = 1;
  GridMode mode = GridMode::bilinear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;

  /// The place of a coordinate in [-1, 1] among the elements.
  TENSORA_HD C place(C coordinate) const {
    const C n = static_cast<C>(size);
    return align_corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
  }
  /// A place brought inside by the padding's rule; `slope` is multiplied by its derivative.
  TENSORA_HD C inside(C x, C& slope) const {
    if (padding == GridPadding::zeros) return x;
    if (padding == GridPadding::reflection) x = reflected(x, slope);
    const C last = static_cast<C>(size - 1);
    if (!(x > 0)) {  // NaN too
      slope = 0;
      return 0;
    }
    if (x >= last) {
      slope = 0;
      return last;
    }
    return x;
  }
  TENSORA_HD AxisTaps<C> taps(C coordinate) const {
    AxisTaps<C> result;
    C slope = static_cast<C>(align_corners ? size - 1 : size) / 2;
    C x = place(coordinate);
    if (mode != GridMode::bicubic) x = inside(x, slope);
    // What is no number, or too large for an index, lies outside.
    if (!(x > C(-2e9) && x < C(2e9))) x = -100;
    if (mode == GridMode::nearest) {
      result.index[0] = checked(math::rint(x));
      return result;
    }
    const C below = math::floor(x), t = x - below;
    if (mode == GridMode::bilinear) {
      result.count = 2;
      for (int k = 0; k < 2; ++k) {
        result.index[k] = checked(below + static_cast<C>(k));
        result.weight[k] = k == 0 ? 1 - t : t;
        result.slope[k] = k == 0 ? -slope : slope;
      }
      return result;
    }
    result.count = 4;
    for (int k = 0; k < 4; ++k) {
      C ignored = 1;
      result.index[k] = checked(inside(below + static_cast<C>(k - 1), ignored));
      cubic(t + static_cast<C>(1 - k), result.weight[k], result.slope[k]);
      result.slope[k] *= slope;
    }
    return result;
  }

 private:
  TENSORA_HD int64_t checked(C x) const {
    const int64_t i = static_cast<int64_t>(x);
    return i >= 0 && i < size ? i : -1;
  }
  // Mirrored at the centres of the corner elements, or at their outer edges.
  TENSORA_HD C reflected(C x, C& slope) const {
    const C low = align_corners ? C(0) : C(-0.5);
    const C span = static_cast<C>(align_corners ? size - 1 : size);
    if (!(span > 0) || !(x - x == 0)) {  // one element, or no finite place
      slope = 0;
      return 0;
    }
    x -= low;
    if (x < 0) {
      x = -x;
      slope = -slope;
    }
    const C turns = math::floor(x / span), rest = x - turns * span;
    const bool even = turns - 2 * math::floor(turns / 2) == 0;
    if (!even) slope = -slope;
    return even ? rest + low : span - rest + low;
  }
  // The cubic convolution kernel with a = -0.75 at distance x, and its derivative.
  TENSORA_HD static void cubic(C x, C& value, C& slope) {
    const C a = C(-0.75), sign = x < 0 ? C(-1) : C(1);
    x *= sign;
    if (x <= 1) {
      value = ((a + 2) * x - (a + 3)) * x * x + 1;
      slope = sign * (3 * (a + 2) * x - 2 * (a + 3)) * x;
    } else {
      value = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
      slope = sign * ((3 * a * x - 10 * a) * x + 8 * a);
    }
  }
};

}  // namespace tensora::resample

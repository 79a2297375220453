#pragma once

// Internal header: resizing along one dim is a matrix with few entries per row, which lie side by
// side. Row o, its band, says from which inputs output o is mixed; both ends of the bands only
// advance, so the outputs that an input contributes to are consecutive too, and the gradient runs
// over them in order.

#include <cstdint>

#include "tensora/base/host_device.h"
#include "tensora/base/math.h"
#include "tensora/ops/resample/resize_method.h"

namespace tensora::resample {

/// Resizing of one dim from `in` to `out`; `step` is the distance between outputs, in inputs.
struct BandDim {
  int64_t in = 1, out = 1;
  double step = 1;
  Method method = Method::nearest;
  bool align_corners = false, antialias = false, copies = false;  // copies: output o is input o

  /// How many entries a row has at most.
  TENSORA_HD int64_t width() const {
    if (copies || method <= Method::nearest_exact) return 1;
    const int64_t taps = method == Method::linear ? 2 : 4;
    if (!antialias) return taps < in ? taps : in;
    const int64_t most = 2 * static_cast<int64_t>(math::ceil(support())) + 1;
    return most < in ? most : in;
  }
  TENSORA_HD double support() const {
    const double half = method == Method::linear ? 1 : 2;
    return step >= 1 ? half * step : half;
  }
  /// The coordinate of output `o` among the inputs. It may lie outside.
  TENSORA_HD double source(int64_t o) const {
    const double at = static_cast<double>(o);
    return align_corners ? step * at : step * (at + 0.5) - 0.5;
  }
  TENSORA_HD int64_t clamp(int64_t i) const { return i < 0 ? 0 : i < in ? i : in - 1; }

  /// The inputs of output `o`: from `first` to `end`.
  TENSORA_HD void range(int64_t o, int64_t& first, int64_t& end) const {
    if (copies) {
      first = o;
    } else if (method == Method::nearest) {
      // In float, as PyTorch computes it: the jumps must be at the same places.
      first = clamp(
          static_cast<int64_t>(math::floor(static_cast<float>(o) * static_cast<float>(step))));
    } else if (method == Method::nearest_exact) {
      first = clamp(static_cast<int64_t>(
          math::floor((static_cast<float>(o) + 0.5f) * static_cast<float>(step))));
    } else if (antialias) {
      const double center = step * (static_cast<double>(o) + 0.5);
      first = static_cast<int64_t>(math::floor(center - support() + 0.5));
      first = first < 0 ? 0 : first;
      end = static_cast<int64_t>(math::floor(center + support() + 0.5));
      end = end < in ? end : in;
      return;
    } else {
      const int64_t at = floor_of(o);
      first = clamp(method == Method::linear ? at : at - 1);
      end = clamp(method == Method::linear ? at + 1 : at + 2) + 1;
      return;
    }
    end = first + 1;
  }
  /// The weights of the range of output `o`.
  template <class W>
  TENSORA_HD void weights(int64_t o, W* to) const {
    int64_t first, end;
    range(o, first, end);
    for (int64_t k = 0; k < end - first; ++k) to[k] = W(0);
    if (copies || method <= Method::nearest_exact) {
      to[0] = W(1);
    } else if (antialias) {
      antialiased(o, first, end, to);
    } else {
      const int64_t at = floor_of(o);
      double t =
          method == Method::linear && source(o) < 0 ? 0 : source(o) - static_cast<double>(at);
      t = t < 0 ? 0 : t > 1 ? 1 : t;
      if (method == Method::linear) {
        to[0] += static_cast<W>(1 - t);
        to[clamp(at + 1) - first] += static_cast<W>(t);
      } else {
        for (int k = 0; k < 4; ++k)
          to[clamp(at - 1 + k) - first] += static_cast<W>(cubic(t + 1 - k, -0.75));
      }
    }
  }

  /// The cubic convolution kernel at distance `x`.
  TENSORA_HD static double cubic(double x, double a) {
    x = x < 0 ? -x : x;
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0;
  }

 private:
  TENSORA_HD int64_t floor_of(int64_t o) const {
    double at = source(o);
    if (method == Method::linear && at < 0) at = 0;
    const int64_t below = static_cast<int64_t>(math::floor(at));
    return below < in ? below : in - 1;
  }
  template <class W>
  TENSORA_HD void antialiased(int64_t o, int64_t first, int64_t end, W* to) const {
    const double center = step * (static_cast<double>(o) + 0.5), shrink = step >= 1 ? 1 / step : 1;
    const auto weight = [&](int64_t i) {
      const double x = (static_cast<double>(i) - center + 0.5) * shrink;
      if (method == Method::cubic) return cubic(x, -0.5);
      const double distance = x < 0 ? -x : x;
      return distance < 1 ? 1 - distance : 0.0;
    };
    double total = 0;
    for (int64_t i = first; i < end; ++i) total += weight(i);
    for (int64_t i = first; i < end; ++i)
      to[i - first] = static_cast<W>(total != 0 ? weight(i) / total : weight(i));
  }
};

}  // namespace tensora::resample

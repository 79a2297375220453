#pragma once

// Internal header
// Note [Convolution as a gather]
// A convolution and its transpose are computed by one kind of loop: every element of the result
// gathers the inputs that its taps reach. Along one spatial dim, position j of the result reads
// in[j * in_step + offset(tap)]. A plain convolution has in_step = stride and all taps. In a
// transposed one, positions whose index differs modulo the stride are reached by different taps, so
// the result is computed in parts, one for each remainder; within a part neighbours read
// neighbours (in_step 1). Nothing is scattered, no zero is multiplied that the user did not pad,
// and no two threads write to one place.

#include <algorithm>
#include <array>
#include <vector>

#include "tensora/ops/conv/convolution_geometry.h"

namespace tensora::cpu {

inline constexpr int kSpatial = 3;  // fewer spatial dims get leading ones of size 1

/// N C D H W as strides; in elements.
template <class T>
struct Volumes {
  T* data = nullptr;
  int64_t batch = 0, channels = 0;
  int64_t batch_stride = 0, channel_stride = 0;
  std::array<int64_t, kSpatial> size = {}, stride = {};

  int64_t positions() const { return size[0] * size[1] * size[2]; }
  /// Whether the positions of one image are equally far apart in memory, in row-major order.
  bool evenly_spaced() const {
    int64_t expected = position_stride();
    for (int d = kSpatial - 1; d >= 0; --d) {
      if (size[d] != 1 && stride[d] != expected) return false;
      expected *= size[d];
    }
    return true;
  }
  /// The distance of neighbours, where they are evenly spaced.
  int64_t position_stride() const {
    for (int d = kSpatial - 1; d >= 0; --d)
      if (size[d] != 1) return stride[d];
    return 1;
  }
  bool channels_inside() const { return channel_stride == 1 && channels > 1; }
};

template <class T>
Volumes<T> volumes_of(const View& view) {
  Volumes<T> result;
  result.data = view.as<T>();
  result.batch = view.sizes[0];
  result.channels = view.sizes[1];
  result.batch_stride = view.strides[0];
  result.channel_stride = view.strides[1];
  const int missing = kSpatial + 2 - view.dim();
  for (int d = 0; d < kSpatial; ++d) {
    result.size[d] = d < missing ? 1 : view.sizes[d - missing + 2];
    result.stride[d] = d < missing ? 0 : view.strides[d - missing + 2];
  }
  return result;
}

struct Tap {
  int64_t kernel = 0;          // position in the weight
  int64_t offset = 0;          // from j * in_step
  int64_t begin = 0, end = 0;  // the positions j that read inside of the input; the others read 0
};

struct GatherAxis {
  int64_t count = 0;                    // positions of the result in this part
  int64_t out_start = 0, out_step = 1;  // where they lie
  int64_t in_size = 1, in_step = 1;
  std::vector<Tap> taps;

  void add_tap(int64_t kernel, int64_t offset) {
    const auto first_from = [&](int64_t index) {  // the first j with j * in_step + offset >= index
      const int64_t distance = index - offset;
      return distance <= 0 ? 0 : std::min(count, (distance + in_step - 1) / in_step);
    };
    taps.push_back({kernel, offset, first_from(0), first_from(in_size)});
  }
};

struct GatherPart {
  std::array<GatherAxis, kSpatial> axis;

  int64_t positions() const { return axis[0].count * axis[1].count * axis[2].count; }
  int64_t taps() const {
    size_t count = 1;
    for (const GatherAxis& a : axis) count *= a.taps.size();
    return static_cast<int64_t>(count);
  }
};

/// Sizes of one spatial dim.
struct ConvolutionAxis {
  int64_t large = 1, small = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
};
using ConvolutionAxes = std::array<ConvolutionAxis, kSpatial>;

inline ConvolutionAxes axes_of(const ConvolutionViews& views) {
  ConvolutionAxes axes;
  const int spatial = views.large.dim() - 2;
  for (int d = 0; d < spatial; ++d) {
    const int at = kSpatial - spatial + d;
    axes[static_cast<size_t>(at)] = {views.large.sizes[d + 2],  views.small.sizes[d + 2],
                                     views.weight.sizes[d + 2], views.attrs.stride[d],
                                     views.attrs.padding[d],    views.attrs.dilation[d]};
  }
  return axes;
}

/// small from large.
inline GatherPart plain_part(const ConvolutionAxes& axes) {
  GatherPart part;
  for (size_t d = 0; d < kSpatial; ++d) {
    const ConvolutionAxis& a = axes[d];
    GatherAxis& g = part.axis[d];
    g = {.count = a.small, .in_size = a.large, .in_step = a.stride, .taps = {}};
    for (int64_t t = 0; t < a.kernel; ++t) g.add_tap(t, t * a.dilation - a.padding);
  }
  return part;
}

/// large from small.
inline std::vector<GatherPart> transposed_parts(const ConvolutionAxes& axes) {
  std::array<std::vector<GatherAxis>, kSpatial> choices;
  for (size_t d = 0; d < kSpatial; ++d) {
    const ConvolutionAxis& a = axes[d];
    for (int64_t first = 0; first < std::min(a.stride, a.large); ++first) {
      GatherAxis g = {.count = (a.large - first + a.stride - 1) / a.stride,
                      .out_start = first,
                      .out_step = a.stride,
                      .in_size = a.small,
                      .taps = {}};
      for (int64_t t = 0; t < a.kernel; ++t) {
        const int64_t distance = first + a.padding - t * a.dilation;
        if (distance % a.stride == 0) g.add_tap(t, distance / a.stride);
      }
      choices[d].push_back(std::move(g));
    }
  }
  std::vector<GatherPart> parts;
  for (const GatherAxis& d : choices[0])
    for (const GatherAxis& h : choices[1])
      for (const GatherAxis& w : choices[2]) parts.push_back({{d, h, w}});
  return parts;
}

/// One channel per group on one side: computed without a matrix product.
inline bool is_direct(int64_t in_channels, int64_t out_channels, int64_t groups) {
  return groups > 1 ? in_channels == 1 || out_channels == 1 : in_channels * out_channels == 1;
}

}  // namespace tensora::cpu

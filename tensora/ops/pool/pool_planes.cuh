#pragma once

// Internal header: small square windows over planes, which is what networks pool with.
//
// Note [Windows that the compiler can see]
// Pooling moves few bytes for the arithmetic that finds them: which positions a window has, and
// where they lie. If the size of the window is known when the kernel is compiled, all its loads are
// in flight at once, and positions outside the plane are left out by a predicate instead of by the
// bounds of loops. Other windows (dilated, adaptive, oblong, 3-D, large) take the general kernels.

#include "tensora/ops/pool/pool_cuda.cuh"

namespace tensora::cuda {

/// The windows along the height or the width of a plane.
struct PlaneDim {
  int in, out, stride, padding;
  Divisor by_stride;

  __device__ int start(int o) const { return o * stride - padding; }
  /// The last window that position `i` of the input belongs to, if there is one.
  __device__ int last_window(int i) const {
    return static_cast<int>(by_stride.divide(static_cast<unsigned>(i + padding)));
  }
};

/// Where the elements of a plane lie, in 32 bits within it.
struct PlaneArray {
  int64_t n, c;  // strides
  int h, w;

  __device__ int64_t start(const Place& at) const { return at.n * n + at.c * c; }
  __device__ int offset(int row, int column) const { return row * h + column * w; }
};

struct PlaneWindows {
  int kernel;
  PlaneDim h, w;
};

inline bool fits_plane(const View& view) {
  const auto reach = [&](int d) { return (view.sizes[d] - 1) * view.strides[d]; };
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  return view.strides[3] <= kMost && view.strides[4] <= kMost && reach(3) + reach(4) <= kMost &&
         view.sizes[3] * view.sizes[4] <= kMost;
}

inline PlaneArray plane_array(const View& view) {
  return {view.strides[0], view.strides[1], static_cast<int>(view.strides[3]),
          static_cast<int>(view.strides[4])};
}

/// Whether the windows are such that a kernel was compiled for them.
inline bool are_small_squares(const pool::Windows& windows,
                              std::initializer_list<const View*> views) {
  const auto& [depth, height, width] = windows.dims;
  bool small = depth.in == 1 && depth.out == 1 && depth.kernel == 1 && depth.padding == 0 &&
               height.kernel == width.kernel && height.stride == width.stride &&
               (width.kernel == 2 || width.kernel == 3) && width.stride <= width.kernel;
  for (const pool::WindowDim* dim : {&height, &width})
    small &= !dim->adaptive && dim->dilation == 1;
  for (const View* view : views) small &= view->numel > 0 && fits_plane(*view);
  return small;
}

inline PlaneWindows plane_windows(const pool::Windows& windows) {
  const auto plane_dim = [](const pool::WindowDim& dim) {
    const DivisorNumbers numbers = divisor_numbers(dim.stride);
    return PlaneDim{static_cast<int>(dim.in),
                    static_cast<int>(dim.out),
                    static_cast<int>(dim.stride),
                    static_cast<int>(dim.padding),
                    {numbers.divisor, numbers.multiplier, numbers.shift}};
  };
  return {static_cast<int>(windows.dims[2].kernel), plane_dim(windows.dims[1]),
          plane_dim(windows.dims[2])};
}

/// Calls body(h, w) for the positions of window (oh, ow) that are in the plane, unrolled.
template <int kKernel, class Body>
__device__ inline void each_in_window(const PlaneWindows& windows, int oh, int ow,
                                      const Body& body) {
  const int h0 = windows.h.start(oh), w0 = windows.w.start(ow);
#pragma unroll
  for (int y = 0; y < kKernel; ++y)
#pragma unroll
    for (int x = 0; x < kKernel; ++x) {
      const int h = h0 + y, w = w0 + x;
      const bool inside = static_cast<unsigned>(h) < static_cast<unsigned>(windows.h.in) &&
                          static_cast<unsigned>(w) < static_cast<unsigned>(windows.w.in);
      body(h, w, inside);
    }
}

/// Calls body(oh, ow, contains) for the windows that may contain position (h, w): at most kReach in
/// each direction, in ascending order, unrolled.
template <int kReach, class Body>
__device__ inline void each_window_around(const PlaneWindows& windows, int h, int w,
                                          const Body& body) {
  const int last_h = windows.h.last_window(h), last_w = windows.w.last_window(w);
#pragma unroll
  for (int y = kReach - 1; y >= 0; --y)
#pragma unroll
    for (int x = kReach - 1; x >= 0; --x) {
      const int oh = last_h - y, ow = last_w - x;
      const bool contains = oh >= 0 && ow >= 0 && oh < windows.h.out && ow < windows.w.out &&
                            h < windows.h.start(oh) + windows.kernel &&
                            w < windows.w.start(ow) + windows.kernel;
      body(oh, ow, contains);
    }
}

/// Calls body with the size of the window as a constant.
template <class Body>
void visit_kernel(const PlaneWindows& windows, const Body& body) {
  if (windows.kernel == 2)
    body.template operator()<2>();
  else
    body.template operator()<3>();
}
/// Calls body with a constant that is at least the number of windows over a position.
template <class Body>
void visit_reach(const PlaneWindows& windows, const Body& body) {
  const int reach = (windows.kernel + windows.w.stride - 1) / windows.w.stride;
  if (reach == 1)
    body.template operator()<1>();
  else if (reach == 2)
    body.template operator()<2>();
  else
    body.template operator()<3>();
}

}  // namespace tensora::cuda

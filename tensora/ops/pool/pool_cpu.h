#pragma once

// Internal header: what the CPU kernels of max and average pooling share. Arrays have five dims:
// batch, channel, depth, height, width.

#include <algorithm>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/pool/pool_common.h"

namespace tensora::cpu::TENSORA_ISA {

using pool::WindowDim, pool::Windows;

/// Runs of elements of an array, read and written as values of a compute type.
template <class C>
struct Runs {
  char* data;
  const View* view;
  int64_t bytes;
  LoadFn load;
  StoreFn store;

  explicit Runs(const View& of)
      : data(of.as<char>()),
        view(&of),
        bytes(static_cast<int64_t>(element_size(of.dtype))),
        load(load_fn<C>(of.dtype)),
        store(store_fn<C>(of.dtype)) {}

  int64_t size(int d) const { return view->sizes[d]; }
  int64_t stride(int d) const { return view->strides[d]; }
  char* at(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) const {
    return data +
           (n * stride(0) + c * stride(1) + d * stride(2) + h * stride(3) + w * stride(4)) * bytes;
  }
  /// `n` elements along `dim`: in place if they are contiguous values of the compute type.
  const C* read(const char* from, int dim, int64_t n, C* buffer) const {
    if (view->dtype == dtype_of<C> && (stride(dim) == 1 || n == 1))
      return reinterpret_cast<const C*>(from);
    load(from, stride(dim), n, buffer);
    return buffer;
  }
  void write(const C* values, char* to, int dim, int64_t n) const {
    store(values, to, stride(dim), n);
  }
};

/// True where the channels of a position lie side by side, and the loops run along them.
inline bool runs_along_channels(const View& a, const View& b) {
  return a.sizes[1] > 1 && a.strides[1] == 1 && b.strides[1] == 1 &&
         (a.strides[4] != 1 || b.strides[4] != 1);
}

/// Which outputs of a row have input `offset + o * stride` inside of it.
struct LaneRange {
  int64_t begin, end, offset;
};
inline LaneRange lanes_of(const WindowDim& dim, int64_t k) {
  const int64_t offset = k * dim.dilation - dim.padding;
  const int64_t begin = offset >= 0 ? 0 : (-offset + dim.stride - 1) / dim.stride;
  const int64_t end = offset >= dim.in ? 0 : (dim.in - 1 - offset) / dim.stride + 1;
  return {begin, std::min(end, dim.out), offset};
}

/// Whether all outputs of a row advance together through their windows; otherwise one output after
/// the other runs along its window.
inline bool in_lanes(const WindowDim& width) {
  return !width.adaptive && width.kernel <= width.out;
}

/// Calls body(id, ih) for the rows of window (od, oh).
template <class Body>
void each_window_row(const Windows& windows, int64_t od, int64_t oh, Body&& body) {
  const WindowDim &depth = windows.dims[0], &height = windows.dims[1];
  const int64_t d_end = depth.end(od), h_end = height.end(oh), h_first = height.first(oh);
  for (int64_t id = depth.first(od); id < d_end; id += depth.dilation)
    for (int64_t ih = h_first; ih < h_end; ih += height.dilation) body(id, ih);
}

/// Calls body(n, first, count, d, h, w) for every position of an array, and block of channels.
inline constexpr int64_t kChannelBlock = 256;
template <class Body>
void each_position(const View& view, int64_t work_per_element, Body&& body) {
  const int64_t channels = view.sizes[1], blocks = (channels + kChannelBlock - 1) / kChannelBlock;
  const int64_t D = view.sizes[2], H = view.sizes[3], W = view.sizes[4];
  const int64_t cost = std::max<int64_t>(1, std::min(channels, kChannelBlock) * work_per_element);
  parallel_for(view.sizes[0] * D * H * W * blocks, std::max<int64_t>(1, 16 * 1024 / cost),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t first = i % blocks * kChannelBlock;
                   int64_t rest = i / blocks;
                   const int64_t w = rest % W;
                   rest /= W;
                   const int64_t h = rest % H;
                   rest /= H;
                   body(rest / D, first, std::min(kChannelBlock, channels - first), rest % D, h, w);
                 }
               });
}

/// Calls body(n, c, d, h) for the rows [begin, end) of an array.
template <class Body>
void each_row(const View& view, int64_t begin, int64_t end, Body&& body) {
  const int64_t C = view.sizes[1], D = view.sizes[2], H = view.sizes[3];
  for (int64_t i = begin; i < end; ++i) {
    int64_t rest = i;
    const int64_t h = rest % H;
    rest /= H;
    const int64_t d = rest % D;
    rest /= D;
    body(rest / C, rest % C, d, h);
  }
}

/// An estimate of the work for one output, in elements.
inline int64_t window_work(const Windows& windows) {
  constexpr int64_t kMost = int64_t{1} << 20;  // enough for a thread of its own
  int64_t work = 1;
  for (const WindowDim& dim : windows.dims) {
    const int64_t size = dim.adaptive ? dim.in / std::max<int64_t>(dim.out, 1) + 1 : dim.kernel;
    work = std::min(kMost, work * std::min(kMost, size));
  }
  return work;
}

}  // namespace tensora::cpu::TENSORA_ISA

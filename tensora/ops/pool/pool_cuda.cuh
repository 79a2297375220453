#pragma once

// Internal header: what the CUDA kernels of max and average pooling share.

#include <algorithm>

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/loops/host_walk.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/pool/pool_common.h"

namespace tensora::cuda {

/// A position in an array of five dims. Each dim counts in 32 bits: see check_dims.
struct Place {
  int n, c, d, h, w;
};

/// The positions of an array that the threads of one launch write, in the order of memory: channels
/// innermost, in groups, or last. There are fewer than 2^31 of them; the host splits larger arrays.
struct PoolBox {
  Divisor inner[4];
  int first[5];
  int channel_group;
  bool channels_inner;
  unsigned count;

  __device__ Place place(unsigned i) const {
    int at[5];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const unsigned rest = inner[k].divide(i);
      at[k] = static_cast<int>(i - rest * inner[k].divisor);
      i = rest;
    }
    at[4] = static_cast<int>(i);
    const int c = (channels_inner ? at[0] : at[3]) * channel_group;
    const int w = channels_inner ? at[1] : at[0], h = channels_inner ? at[2] : at[1];
    const int d = channels_inner ? at[3] : at[2];
    return {first[0] + at[4], first[1] + c, first[2] + d, first[3] + h, first[4] + w};
  }
};

/// Strides in elements of an array with five dims.
struct PoolStrides {
  int64_t of[5];

  __device__ int64_t offset(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) const {
    return n * of[0] + c * of[1] + d * of[2] + h * of[3] + w * of[4];
  }
  __device__ int64_t offset(const Place& at) const { return offset(at.n, at.c, at.d, at.h, at.w); }
};
inline PoolStrides pool_strides(const View& view) {
  PoolStrides result;
  for (int d = 0; d < 5; ++d) result.of[d] = view.strides[d];
  return result;
}

/// How many channels a thread takes: as many as 16 bytes hold, where they lie side by side in all
/// arrays; 1 otherwise.
inline int channels_per_thread(std::initializer_list<const View*> views) {
  const int64_t bytes = static_cast<int64_t>(element_size((*views.begin())->dtype));
  const int64_t group = 16 / bytes;
  for (const View* view : views) {
    const auto width = static_cast<int64_t>(element_size(view->dtype));
    if (view->strides[1] != 1 || view->sizes[1] % group != 0) return 1;
    if (reinterpret_cast<uintptr_t>(view->data) % 16 != 0) return 1;
    for (int d : {0, 2, 3, 4})
      if (view->sizes[d] > 1 && view->strides[d] * width % 16 != 0) return 1;
  }
  return static_cast<int>(group);
}

/// The kernels count along each dim in 32 bits; in all an array may have more elements than that.
inline void check_dims(std::string_view op, const pool::Windows& windows,
                       std::initializer_list<const View*> views) {
  constexpr int64_t kMost = int64_t{1} << 29;
  for (const View* view : views)
    for (int d = 0; d < 5; ++d)
      check(view->sizes[d] <= kMost, op, ": on CUDA a dim can have 2^29 positions at most, got ",
            view->sizes[d]);
  for (const pool::WindowDim& dim : windows.dims)
    check((dim.kernel - 1) * dim.dilation < kMost && dim.stride <= kMost && dim.padding <= kMost,
          op, ": on CUDA a window can reach over 2^29 positions at most");
}

/// Calls body(box) for parts of an array that together cover it; `most` threads in each at most.
template <class Body>
void each_box(const View& view, int channel_group, const Body& body, int64_t most = 1u << 30) {
  const bool channels_inner = view.strides[1] == 1 && view.strides[4] != 1;
  const auto part = [&](const auto& self, Shape first, Shape sizes) -> void {
    const int64_t count = sizes.numel() / channel_group;
    if (count == 0) return;
    if (count > most) {
      int largest = 0;
      for (int d = 1; d < 5; ++d)
        if (d != 1 && sizes[d] > sizes[largest]) largest = d;
      if (sizes[1] / channel_group > sizes[largest]) largest = 1;
      const int64_t unit = largest == 1 ? channel_group : 1;
      const int64_t half = sizes[largest] / unit / 2 * unit;
      Shape low = sizes, high = sizes, behind = first;
      low[largest] = half;
      high[largest] -= half;
      behind[largest] += half;
      self(self, first, low);
      self(self, behind, high);
      return;
    }
    PoolBox box;
    const int64_t c = sizes[1] / channel_group;
    const int64_t order[4] = {channels_inner ? c : sizes[4], channels_inner ? sizes[4] : sizes[3],
                              channels_inner ? sizes[3] : sizes[2], channels_inner ? sizes[2] : c};
    for (int k = 0; k < 4; ++k) {
      const DivisorNumbers numbers = divisor_numbers(order[k]);
      box.inner[k] = {numbers.divisor, numbers.multiplier, numbers.shift};
    }
    for (int d = 0; d < 5; ++d) box.first[d] = static_cast<int>(first[d]);
    box.channel_group = channel_group;
    box.channels_inner = channels_inner;
    box.count = static_cast<unsigned>(count);
    body(box);
  };
  part(part, Shape::filled(5, 0), view.sizes);
}

/// V elements side by side as values of the compute type.
template <class T, class C, int V>
__device__ inline void load_channels(const T* from, C (&to)[V]) {
  if constexpr (V == 1)
    to[0] = load_value<C>(*from);
  else
    load_pack<T, C, V>(reinterpret_cast<const char*>(from), to);
}
template <class T, class C, int V>
__device__ inline void store_channels(T* to, const C (&from)[V]) {
  if constexpr (V == 1)
    *to = store_value<T>(from[0]);
  else
    store_pack<T, C, V>(reinterpret_cast<char*>(to), from);
}

inline dim3 blocks_for(unsigned threads) { return dim3((threads + kThreads - 1) / kThreads); }

}  // namespace tensora::cuda

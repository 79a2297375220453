#pragma once

// Arrays whose channels (dim 1) are treated alike: the loops of batch_norm. Memory is read in the
// order it has:
//   planes     elements of one channel are adjacent: a block, or for short channels a warp, goes
//              through a part of one channel's elements
//   rows       channels are adjacent: a thread has a pack of channels, and goes through the rows
// Either way the channel's constants stay in registers. A thread's pack is kPack elements.

#include <optional>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/ops/norm/held_rows.cuh"

namespace tensora::cuda {

inline constexpr unsigned kChannelThreads = 256;

template <int K>
struct ChannelArrays {
  char* data[K];
  DType dtype;           // of all arrays
  int bytes;             // of an element
  long long outer[K];    // bytes from sample to sample (planes), or from row to row
  long long channel[K];  // bytes from channel to channel
  unsigned channels;
  long long samples, plane;  // how many there are, and the elements of a plane
  Divisor packs_per_plane;   // planes
  unsigned packs;            // of a channel (planes), or rows
  unsigned parts, per_part;  // blocks that share a channel, or a group of channels
};

/// One value per channel, of any floating dtype; `fallback` where there is none.
struct ChannelValues {
  const char* data;
  DType dtype;
  long long stride;  // bytes
  // Channel c has value number c / repeat % count: see group_norm.
  unsigned repeat = 1, count = 0xffffffffu;

  template <class C>
  __device__ C at(unsigned channel, C fallback) const {
    return data ? load_any<C>(data + channel / repeat % count * stride, dtype) : fallback;
  }
};

inline ChannelValues channel_values(const View* view) {
  if (!view) return {};
  return {view->as<const char>(), view->dtype,
          view->strides[0] * static_cast<long long>(element_size(view->dtype))};
}

/// What the results are computed from.
struct ApplyParams {
  ChannelArrays<2> arrays;  // result, input
  ChannelValues mean, variance, weight, bias;
  double eps;
};

/// Calls body(at) for this thread's packs: `at` are the addresses in the K arrays. The channels are
/// the same in every call: see channel_of.
template <bool kPlanes, int kPack, int K, class Body>
__device__ inline void each_pack(const ChannelArrays<K>& arrays, Body&& body) {
  if constexpr (kPlanes) {
    const unsigned channel = blockIdx.x * blockDim.y + threadIdx.y;
    if (channel >= arrays.channels) return;
    const unsigned first = blockIdx.y * arrays.per_part;
    const unsigned last = min(arrays.packs, first + arrays.per_part);
#pragma unroll 4
    for (unsigned i = first + threadIdx.x; i < last; i += blockDim.x) {
      const unsigned sample = arrays.packs_per_plane.divide(i);
      const long long element =
          static_cast<long long>(i - sample * arrays.packs_per_plane.divisor) * kPack;
      char* at[K];
#pragma unroll
      for (int k = 0; k < K; ++k)
        at[k] = arrays.data[k] + sample * arrays.outer[k] + channel * arrays.channel[k] +
                element * arrays.bytes;
      body(at);
    }
  } else {
    const unsigned channel = (blockIdx.x * blockDim.x + threadIdx.x) * kPack;
    if (channel >= arrays.channels) return;
    const unsigned first = blockIdx.y * arrays.per_part;
    const unsigned last = min(arrays.packs, first + arrays.per_part);
#pragma unroll 4
    for (unsigned i = first + threadIdx.y; i < last; i += blockDim.y) {
      char* at[K];
#pragma unroll
      for (int k = 0; k < K; ++k)
        at[k] = arrays.data[k] + i * arrays.outer[k] + channel * arrays.channel[k];
      body(at);
    }
  }
}

/// A pack that no thread writes while the kernel runs, so that its load may overtake stores.
template <class T, int kPack, class C>
__device__ inline void read_pack(const char* from, C (&to)[kPack]) {
  constexpr int kBytes = static_cast<int>(sizeof(T)) * kPack;
  RawGroup raw;
  if constexpr (kBytes == 16) {
    const uint4 words = __ldg(reinterpret_cast<const uint4*>(from));
    raw = {words.x, words.y, words.z, words.w};
  } else if constexpr (kBytes == 8) {
    const uint2 words = __ldg(reinterpret_cast<const uint2*>(from));
    raw = {words.x, words.y, 0, 0};
  } else {
    fetch<kBytes>(from, raw);
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) to[i] = load_value<C>(element_of<T>(raw, i));
}

/// The channel of this thread's element i of a pack; beyond the last one, the last.
template <bool kPlanes, int kPack, int K>
__device__ inline unsigned channel_of(const ChannelArrays<K>& arrays, int i) {
  const unsigned channel = kPlanes ? blockIdx.x * blockDim.y + threadIdx.y
                                   : (blockIdx.x * blockDim.x + threadIdx.x) * kPack + i;
  return min(arrays.channels - 1, channel);
}

/// How many channels a thread has constants of.
template <bool kPlanes, int kPack>
inline constexpr int kChannelsPerThread = kPlanes ? 1 : kPack;

template <class C>
struct ChannelSums {
  C first, second;
};

/// The block's sums of each of its channels, into partial[part][channel].
template <bool kPlanes, int kPack, class C, int K>
__device__ inline void leave_channel_sums(const ChannelArrays<K>& arrays,
                                          const C (&first)[kChannelsPerThread<kPlanes, kPack>],
                                          const C (&second)[kChannelsPerThread<kPlanes, kPack>],
                                          ChannelSums<double>* partial) {
  __shared__ ChannelSums<C> shared[kChannelThreads * kChannelsPerThread<kPlanes, kPack>];
  partial += size_t{blockIdx.y} * arrays.channels;
  if constexpr (kPlanes) {
    const ChannelSums<double> own{static_cast<double>(first[0]), static_cast<double>(second[0])};
    const auto add = [](ChannelSums<double> a, ChannelSums<double> b) {
      return ChannelSums<double>{a.first + b.first, a.second + b.second};
    };
    const auto sums = blockDim.x == kWarpThreads ? across_group<kWarpThreads>(own, add)
                                                 : across_group<kChannelThreads>(own, add);
    const unsigned channel = blockIdx.x * blockDim.y + threadIdx.y;
    if (threadIdx.x == 0 && channel < arrays.channels) partial[channel] = sums;
  } else {
    const unsigned width = blockDim.x * kPack;
#pragma unroll
    for (int i = 0; i < kPack; ++i)
      shared[threadIdx.y * width + threadIdx.x * kPack + i] = {first[i], second[i]};
    __syncthreads();
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (unsigned column = thread; column < width; column += kChannelThreads) {
      const unsigned channel = blockIdx.x * width + column;
      if (channel >= arrays.channels) break;
      ChannelSums<double> total{0, 0};
      for (unsigned y = 0; y < blockDim.y; ++y) {
        total.first += shared[y * width + column].first;
        total.second += shared[y * width + column].second;
      }
      partial[channel] = total;
    }
  }
}

/// The sums of all parts of a channel: called by a warp, the same to each of its threads.
__device__ inline ChannelSums<double> total_sums(const ChannelSums<double>* partial, unsigned parts,
                                                 unsigned channels, unsigned channel) {
  ChannelSums<double> total{0, 0};
  for (unsigned part = threadIdx.x % kWarpThreads; part < parts; part += kWarpThreads) {
    const ChannelSums<double> sums = partial[size_t{part} * channels + channel];
    total.first += sums.first;
    total.second += sums.second;
  }
  return across_group<kWarpThreads>(total, [](ChannelSums<double> a, ChannelSums<double> b) {
    return ChannelSums<double>{a.first + b.first, a.second + b.second};
  });
}

/// How an array lies: its samples, channels and the elements of a plane, in elements.
struct ChannelLayout {
  bool planes = false, rows = false;  // which of the two loops can read it
  int64_t outer = 0, channel = 0;     // strides: of samples for planes, of rows for rows
};

/// Which elements an array's dims other than the channels hold together, if they lie in one run.
inline ChannelLayout channel_layout(const View& view, bool want_planes) {
  ChannelLayout layout;
  layout.channel = view.strides[1];
  int64_t length = 1, step = 1;
  bool runs = true;
  for (int d = view.dim() - 1; d >= 2; --d) {
    if (view.sizes[d] == 1) continue;
    if (length == 1) step = view.strides[d];
    runs &= view.strides[d] == step * length;
    length *= view.sizes[d];
  }
  const bool one_sample = view.sizes[0] == 1;
  layout.planes = runs && (step == 1 || length == 1);
  layout.rows = runs && (layout.channel == 1 || view.sizes[1] == 1) &&
                (one_sample || length == 1 || view.strides[0] == step * length);
  if (layout.rows && view.sizes[1] == 1) layout.rows = false;  // planes serve that better
  layout.outer = want_planes ? view.strides[0] : length == 1 ? view.strides[0] : step;
  return layout;
}

/// A launch of one of the loops.
struct ChannelGrid {
  bool planes;
  int pack;
  dim3 blocks, block;
};

/// Fills `arrays` for views of one shape and dtype that all have the layout.
template <int K>
ChannelGrid arrange_channels(const View* const (&views)[K], bool planes, int processors,
                             ChannelArrays<K>& arrays) {
  const View& first = *views[0];
  const int64_t channels = first.sizes[1];
  int64_t plane = 1;
  for (int d = 2; d < first.dim(); ++d) plane *= first.sizes[d];
  arrays.channels = static_cast<unsigned>(channels);
  arrays.samples = first.sizes[0];
  arrays.plane = plane;
  arrays.dtype = first.dtype;
  arrays.bytes = static_cast<int>(element_size(first.dtype));
  const int64_t line = planes ? plane : channels;  // what is adjacent
  const auto takes = [&](int64_t pack) {
    for (int k = 0; k < K; ++k) {
      const auto bytes = static_cast<int64_t>(element_size(views[k]->dtype));
      const int64_t alignment = std::min<int64_t>(16, pack * bytes);
      const ChannelLayout layout = channel_layout(*views[k], planes);
      if (bytes > (pack == 8 ? 2 : 4) || line % pack != 0 ||
          reinterpret_cast<uintptr_t>(views[k]->data) % static_cast<uintptr_t>(alignment) != 0 ||
          layout.outer * bytes % alignment != 0 ||
          (planes && layout.channel * bytes % alignment != 0))
        return false;
    }
    return true;
  };
  const int pack = takes(8) ? 8 : takes(4) ? 4 : 1;
  for (int k = 0; k < K; ++k) {
    const ChannelLayout layout = channel_layout(*views[k], planes);
    const auto bytes = static_cast<int64_t>(element_size(views[k]->dtype));
    arrays.data[k] = views[k]->template as<char>();
    arrays.outer[k] = layout.outer * bytes;
    arrays.channel[k] = layout.channel * bytes;
  }
  const int64_t steps = planes ? first.sizes[0] * plane / pack : first.sizes[0] * plane;
  check(steps < int64_t{1} << 31, "expected channels of fewer than 2^31 elements, got ", steps);
  arrays.packs = static_cast<unsigned>(steps);
  ChannelGrid grid{planes, pack, dim3(), dim3(kChannelThreads)};
  unsigned groups = arrays.channels, steps_per_block = kChannelThreads;
  if (planes) {
    const DivisorNumbers numbers = divisor_numbers(std::max<int64_t>(1, plane / pack));
    arrays.packs_per_plane = {numbers.divisor, numbers.multiplier, numbers.shift};
    if (steps <= 8 * kWarpThreads) {
      grid.block = dim3(kWarpThreads, kChannelThreads / kWarpThreads);
      groups = (arrays.channels + grid.block.y - 1) / grid.block.y;
      steps_per_block = kWarpThreads;
    }
  } else {
    const auto packs = static_cast<unsigned>((channels + pack - 1) / pack);
    unsigned across = 1;
    while (across < packs && across < 32) across *= 2;
    grid.block = dim3(across, kChannelThreads / across);
    groups = (packs + across - 1) / across;
    steps_per_block = grid.block.y;
  }
  // Enough blocks to fill the device several times, each with several steps per thread.
  const int64_t wanted = std::max<int64_t>(1, 16 * int64_t{processors} / std::max(1u, groups));
  const int64_t most = std::max<int64_t>(1, steps / (8 * int64_t{steps_per_block}));
  const int64_t parts = std::min<int64_t>({wanted, most, 65535});
  arrays.per_part = static_cast<unsigned>((steps + parts - 1) / parts);
  arrays.parts = static_cast<unsigned>(std::max<int64_t>(
      1, arrays.per_part == 0 ? 1 : (steps + arrays.per_part - 1) / arrays.per_part));
  grid.blocks = dim3(groups, arrays.parts);
  return grid;
}

/// Dense strides, row-major or with the channels last.
inline Strides strides_of(const Shape& sizes, bool planes) {
  Strides strides = contiguous_strides(sizes);
  if (planes) return strides;
  int64_t stride = sizes[1];
  strides[1] = 1;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    if (d == 1) continue;
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

/// An input in a layout that a loop reads; copied if it has another.
class ChannelInput {
 public:
  ChannelInput(const KernelContext& context, const View& view, bool planes) : view_(view) {
    const ChannelLayout layout = channel_layout(view, planes);
    if (planes ? layout.planes : layout.rows) return;
    scratch_.emplace(context.device.index, view.bytes());
    view_.data = scratch_->data();
    view_.strides = strides_of(view.sizes, planes);
    view_.update();
    copy_elements(context.op, view, view_);
  }
  const View& view() const { return view_; }

 private:
  std::optional<Scratch> scratch_;
  View view_;
};

/// The same for an output: what a loop writes is copied where it belongs.
class ChannelOutput {
 public:
  ChannelOutput(const KernelContext& context, const View& view, bool planes)
      : context_(context), target_(view), view_(view) {
    const ChannelLayout layout = channel_layout(view, planes);
    if (planes ? layout.planes : layout.rows) return;
    scratch_.emplace(context.device.index, view.bytes());
    view_.data = scratch_->data();
    view_.strides = strides_of(view.sizes, planes);
    view_.update();
  }
  const View& view() const { return view_; }
  void finish() const {
    if (scratch_) copy_elements(context_.op, view_, target_);
  }

 private:
  const KernelContext& context_;
  const View& target_;
  std::optional<Scratch> scratch_;
  View view_;
};

/// Whether a tensor, an output say, is read plane by plane; else it is read row by row.
inline bool reads_planes(const View& view) { return !channel_layout(view, false).rows; }

}  // namespace tensora::cuda

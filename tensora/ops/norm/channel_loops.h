#pragma once

// Internal header
// Loops over arrays whose channels (dim 1) are treated alike.

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensora/backend/cpu/bfloat16.h"
#include "tensora/backend/cpu/reduce.h"
#include "tensora/backend/cpu/stream.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/view.h"

namespace tensora::cpu::TENSORA_ISA {

inline constexpr int64_t kChannelTile = 1024;
inline constexpr int64_t kChannelGrain = 32 * 1024;

/// One value per channel in the compute type; `fallback` where there is none.
template <class C>
std::vector<C> channel_values(const View* view, int64_t channels, C fallback) {
  std::vector<C> values(static_cast<size_t>(channels));
  if (view)
    load_fn<C>(view->dtype)(view->data, view->strides[0], channels, values.data());
  else
    std::fill_n(values.data(), channels, fallback);
  return values;
}

/// How K arrays of one shape are walked: as runs of elements whose channel is the same, or, where
/// channels are adjacent in memory, as runs of channels. Array 0 decides.
template <int K>
struct ChannelWalk {
  bool channels_adjacent = false;
  int64_t channels = 0, run = 1;  // run: elements of one channel that are taken together
  int64_t outer = 1;              // such runs of one channel; or rows of channels
  int dims = 0;                   // of the outer walk, innermost first
  int64_t sizes[kMaxDims] = {};
  int64_t strides[K][kMaxDims] = {};  // in elements
  int64_t channel_stride[K] = {}, step[K] = {};
  const View* views[K] = {};

  explicit ChannelWalk(const View* const (&arrays)[K]) {
    const View& first = *arrays[0];
    channels = first.sizes[1];
    int inner = -1;  // the dim, other than the channels, with the smallest step
    for (int d = 0; d < first.dim(); ++d)
      if (d != 1 && first.sizes[d] > 1 && (inner < 0 || first.strides[d] <= first.strides[inner]))
        inner = d;
    channels_adjacent = channels > 1 && (inner < 0 || first.strides[1] < first.strides[inner]);
    for (int k = 0; k < K; ++k) {
      views[k] = arrays[k];
      channel_stride[k] = arrays[k]->strides[1];
    }
    if (!channels_adjacent && inner >= 0) {
      run = first.sizes[inner];
      for (int k = 0; k < K; ++k) step[k] = arrays[k]->strides[inner];
    }
    for (int d = first.dim() - 1; d >= 0; --d) {
      if (d == 1 || first.sizes[d] == 1 || (d == inner && !channels_adjacent)) continue;
      add_dim(first.sizes[d], d);
    }
  }

  /// Where run (or row) number `i` begins in array k, in elements.
  int64_t offset(int k, int64_t i) const {
    int64_t at = 0;
    for (int d = 0; d < dims; ++d) {
      at += i % sizes[d] * strides[k][d];
      i /= sizes[d];
    }
    return at;
  }
  char* at(int k, int64_t offset_in_elements) const {
    return views[k]->template as<char>() +
           offset_in_elements * static_cast<int64_t>(element_size(views[k]->dtype));
  }

 private:
  // The run grows while the next dim continues it in all arrays.
  void add_dim(int64_t size, int d) {
    bool continues = !channels_adjacent && dims == 0;
    for (int k = 0; k < K && continues; ++k) continues = views[k]->strides[d] == step[k] * run;
    if (continues) {
      run *= size;
      return;
    }
    sizes[dims] = size;
    for (int k = 0; k < K; ++k) strides[k][dims] = views[k]->strides[d];
    ++dims;
    outer *= size;
  }
};

/// Elements of an array in the compute type: in place, or converted.
template <class C>
const C* read(const View& view, const char* from, int64_t step, int64_t n, C* buffer) {
  if (view.dtype == dtype_of<C> && step == 1) return reinterpret_cast<const C*>(from);
  const bool by_hand = std::is_same_v<C, float> && view.dtype == kBFloat16;
  (by_hand ? load_bfloat16 : load_fn<C>(view.dtype))(from, step, n, buffer);
  return buffer;
}
template <class C>
C* place(const View& view, char* to, int64_t step, C* buffer) {
  return view.dtype == dtype_of<C> && step == 1 ? reinterpret_cast<C*>(to) : buffer;
}
template <class C>
void write(const View& view, const C* values, char* to, int64_t step, int64_t n) {
  if (values == reinterpret_cast<const C*>(to)) return;
  const bool by_hand = std::is_same_v<C, float> && view.dtype == kBFloat16;
  (by_hand ? store_bfloat16 : store_fn<C>(view.dtype))(values, to, step, n);
}

/// Calls body(channel, inputs, out, n) for runs in which element j has channel `channel` (kOne), or
/// channel + j. Array 0 is written, the others are read.
template <class C, int K, class Body>
void transform(const ChannelWalk<K>& walk, Body&& body) {
  if (walk.views[0]->numel == 0) return;
  const bool beside = walk.channels_adjacent;
  const int64_t length = beside ? walk.channels : walk.run;
  const int64_t runs = beside ? walk.outer : walk.outer * walk.channels;
  const View& target = *walk.views[0];
  const bool stream = target.dtype == dtype_of<C> && streams(target, length) &&
                      (beside ? walk.channel_stride[0] : walk.step[0]) == 1;
  parallel_for(runs, std::max<int64_t>(1, kChannelGrain / length), [&](int64_t begin, int64_t end) {
    alignas(64) C buffers[K][kChannelTile];
    for (int64_t i = begin; i < end; ++i) {
      // Channels change fastest but for the run: that is the order of planes in memory.
      const int64_t channel = beside ? 0 : i % walk.channels;
      const int64_t number = beside ? i : i / walk.channels;
      int64_t offset[K], step[K];
      for (int k = 0; k < K; ++k) {
        offset[k] = walk.offset(k, number) + channel * walk.channel_stride[k];
        step[k] = beside ? walk.channel_stride[k] : walk.step[k];
      }
      for (int64_t first = 0; first < length; first += kChannelTile) {
        const int64_t n = std::min(kChannelTile, length - first);
        const C* in[K] = {};
        for (int k = 1; k < K; ++k)
          in[k] = read<C>(*walk.views[k], walk.at(k, offset[k] + first * step[k]), step[k], n,
                          buffers[k]);
        char* const to = walk.at(0, offset[0] + first * step[0]);
        C* const out = stream ? buffers[0] : place<C>(target, to, step[0], buffers[0]);
        body(beside ? first : channel, beside, in, out, n);
        if (stream)
          copy_streaming(to, reinterpret_cast<const char*>(out),
                         static_cast<size_t>(n) * sizeof(C));
        else
          write<C>(target, out, to, step[0], n);
      }
    }
    finish_streaming();
  });
}

// y = (x - mean) * scale + bias
template <class C>
void apply_channels(const View& y, const View& x, const C* mean, const C* scale, const C* bias) {
  const View* const views[2] = {&y, &x};
  transform<C, 2>(ChannelWalk<2>(views), [&](int64_t channel, bool beside, const C* const* in,
                                             C* out, int64_t n) {
    const C* const from = in[1];
    if (beside) {
      const C *const m = mean + channel, *const s = scale + channel, *const b = bias + channel;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) out[j] = (from[j] - m[j]) * s[j] + b[j];
      return;
    }
    const C m = mean[channel], s = scale[channel], b = bias[channel];
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) out[j] = (from[j] - m) * s + b;
  });
}

template <class C>
std::vector<C> scales(const C* variance, const C* weight, double eps, int64_t channels) {
  std::vector<C> scale(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c)
    scale[static_cast<size_t>(c)] =
        static_cast<C>(weight[c] / std::sqrt(static_cast<double>(variance[c]) + eps));
  return scale;
}

// Sums of grad and of grad * (x - mean) over each channel, in parts that depend on the shape alone.
template <class C>
class GradientSums {
 public:
  GradientSums(const View& grad, const View& x, const C* mean)
      : views_{&x, &grad}, walk_(views_), mean_(mean), channels_(walk_.channels) {
    plain.resize(static_cast<size_t>(channels_));
    along.resize(static_cast<size_t>(channels_));
    if (x.numel == 0) return;
    if (walk_.channels_adjacent)
      by_rows();
    else
      by_channels();
  }
  std::vector<double> plain, along;

 private:
  static constexpr int64_t kMostParts = 64, kLeastElements = 16 * 1024;

  void by_channels() {
    const int64_t elements = walk_.outer * walk_.run;
    parallel_for(channels_, std::max<int64_t>(1, kChannelGrain / elements),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t c = begin; c < end; ++c)
                     for (int64_t i = 0; i < walk_.outer; ++i) take_run(c, i);
                 });
  }

  void take_run(int64_t channel, int64_t number) {
    constexpr int lanes = 128 / static_cast<int>(sizeof(C));
    alignas(64) C buffers[2][kChannelTile];
    const C mean = mean_[channel];
    double sum = 0, product = 0;
    for (int64_t first = 0; first < walk_.run; first += kChannelTile) {
      const int64_t n = std::min(kChannelTile, walk_.run - first);
      const C* const x = tile(0, number, channel * walk_.channel_stride[0], first, n, buffers[0]);
      const C* const g = tile(1, number, channel * walk_.channel_stride[1], first, n, buffers[1]);
      alignas(64) C a[lanes] = {}, b[lanes] = {};
      const auto take = [&](int64_t i, int width) {
#pragma omp simd
        for (int j = 0; j < width; ++j) {
          a[j] += g[i + j];
          b[j] += g[i + j] * (x[i + j] - mean);
        }
      };
      int64_t i = 0;
      for (; i + lanes <= n; i += lanes) take(i, lanes);
      take(i, static_cast<int>(n - i));
      for (C part : a) sum += part;
      for (C part : b) product += part;
    }
    plain[static_cast<size_t>(channel)] += sum;
    along[static_cast<size_t>(channel)] += product;
  }

  const C* tile(int k, int64_t number, int64_t base, int64_t first, int64_t n, C* buffer) const {
    const int64_t step = walk_.channels_adjacent ? walk_.channel_stride[k] : walk_.step[k];
    return read<C>(*views_[k], walk_.at(k, walk_.offset(k, number) + base + first * step), step, n,
                   buffer);
  }

  void by_rows() {
    const int64_t rows = walk_.outer;
    const int64_t per_part =
        std::max<int64_t>({1, (rows + kMostParts - 1) / kMostParts, kLeastElements / channels_});
    const int64_t parts = (rows + per_part - 1) / per_part;
    std::vector<C> partial(static_cast<size_t>(2 * parts * channels_));
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      alignas(64) C buffers[2][kChannelTile];
      for (int64_t part = begin; part < end; ++part) {
        C* const a = partial.data() + 2 * part * channels_;
        C* const b = a + channels_;
        for (int64_t row = part * per_part; row < std::min(rows, (part + 1) * per_part); ++row)
          for (int64_t first = 0; first < channels_; first += kChannelTile) {
            const int64_t n = std::min(kChannelTile, channels_ - first);
            const C* const x = tile(0, row, 0, first, n, buffers[0]);
            const C* const g = tile(1, row, 0, first, n, buffers[1]);
#pragma omp simd
            for (int64_t j = 0; j < n; ++j) {
              a[first + j] += g[j];
              b[first + j] += g[j] * (x[j] - mean_[first + j]);
            }
          }
      }
    });
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t c = 0; c < channels_; ++c) {
        plain[static_cast<size_t>(c)] += partial[static_cast<size_t>(2 * part * channels_ + c)];
        along[static_cast<size_t>(c)] +=
            partial[static_cast<size_t>((2 * part + 1) * channels_ + c)];
      }
  }

  const View* views_[2];
  ChannelWalk<2> walk_;
  const C* mean_;
  int64_t channels_;
};

}  // namespace tensora::cpu::TENSORA_ISA

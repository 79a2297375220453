#include <algorithm>
#include <cmath>
#include <memory>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/reduce.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/norm/channel_norm.h"
#include "tensora/ops/reduce/variance_functors.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kTile = 1024;
constexpr int64_t kGrain = 32 * 1024;

const View* optional_input(const KernelContext& context, size_t i) {
  return i < context.in.size() ? context.in[i] : nullptr;
}

/// One value per channel in the compute type; `fallback` where there is none.
template <class C>
std::unique_ptr<C[]> channel_values(const View* view, int64_t channels, C fallback) {
  std::unique_ptr<C[]> values(new C[static_cast<size_t>(channels)]);
  if (view)
    load_fn<C>(view->dtype)(view->data, view->strides[0], channels, values.get());
  else
    std::fill_n(values.get(), channels, fallback);
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
  load_fn<C>(view.dtype)(from, step, n, buffer);
  return buffer;
}
template <class C>
C* place(const View& view, char* to, int64_t step, C* buffer) {
  return view.dtype == dtype_of<C> && step == 1 ? reinterpret_cast<C*>(to) : buffer;
}
template <class C>
void write(const View& view, const C* values, char* to, int64_t step, int64_t n) {
  if (values != reinterpret_cast<const C*>(to)) store_fn<C>(view.dtype)(values, to, step, n);
}

/// Calls body(channel, inputs, out, n) for runs in which element j has channel `channel` (kOne), or
/// channel + j. Array 0 is written, the others are read.
template <class C, int K, class Body>
void transform(const ChannelWalk<K>& walk, Body&& body) {
  if (walk.views[0]->numel == 0) return;
  const bool beside = walk.channels_adjacent;
  const int64_t length = beside ? walk.channels : walk.run;
  const int64_t runs = beside ? walk.outer : walk.outer * walk.channels;
  parallel_for(runs, std::max<int64_t>(1, kGrain / length), [&](int64_t begin, int64_t end) {
    alignas(64) C buffers[K][kTile];
    for (int64_t i = begin; i < end; ++i) {
      // Channels change fastest but for the run: that is the order of planes in memory.
      const int64_t channel = beside ? 0 : i % walk.channels;
      const int64_t number = beside ? i : i / walk.channels;
      int64_t offset[K], step[K];
      for (int k = 0; k < K; ++k) {
        offset[k] = walk.offset(k, number) + channel * walk.channel_stride[k];
        step[k] = beside ? walk.channel_stride[k] : walk.step[k];
      }
      for (int64_t first = 0; first < length; first += kTile) {
        const int64_t n = std::min(kTile, length - first);
        const C* in[K] = {};
        for (int k = 1; k < K; ++k)
          in[k] = read<C>(*walk.views[k], walk.at(k, offset[k] + first * step[k]), step[k], n,
                          buffers[k]);
        char* const to = walk.at(0, offset[0] + first * step[0]);
        C* const out = place<C>(*walk.views[0], to, step[0], buffers[0]);
        body(beside ? first : channel, beside, in, out, n);
        write<C>(*walk.views[0], out, to, step[0], n);
      }
    }
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
std::unique_ptr<C[]> scales(const C* variance, const C* weight, double eps, int64_t channels) {
  std::unique_ptr<C[]> scale(new C[static_cast<size_t>(channels)]);
  for (int64_t c = 0; c < channels; ++c)
    scale[static_cast<size_t>(c)] =
        static_cast<C>(weight[c] / std::sqrt(static_cast<double>(variance[c]) + eps));
  return scale;
}

void batch_norm_kernel(const KernelContext& context, const BatchNormAttrs& attrs) {
  const View &x = context.input(0), &y = context.output();
  const int64_t channels = x.sizes[1];
  visit_compute_floating(x.dtype, [&]<class C>() {
    if (attrs.training) {
      const uint32_t mask = ((1u << x.dim()) - 1) & ~2u;
      const double count = static_cast<double>(x.numel) / static_cast<double>(channels);
      const reductions::Variance<C> variance{{}, count, false};
      static constexpr ReduceTiles tiles = reduce_tiles<reductions::Variance<C>>();
      const View* const statistics[2] = {&context.output(2), &context.output(1)};
      if (channels > 0) run_reduction(x, mask, statistics, tiles, &variance);
    }
    const View* const mean_view = attrs.training ? &context.output(1) : context.in[1];
    const View* const variance_view = attrs.training ? &context.output(2) : context.in[2];
    const auto mean = channel_values<C>(mean_view, channels, 0),
               variance = channel_values<C>(variance_view, channels, 1),
               weight = channel_values<C>(optional_input(context, 3), channels, 1),
               bias = channel_values<C>(optional_input(context, 4), channels, 0);
    const auto scale = scales<C>(variance.get(), weight.get(), attrs.eps, channels);
    apply_channels<C>(y, x, mean.get(), scale.get(), bias.get());
  });
}

// ---- backward ----------------------------------------------------------------------------------

// Sums of grad and of grad * (x - mean) over each channel, in parts that depend on the shape alone.
template <class C>
class GradientSums {
 public:
  GradientSums(const View& grad, const View& x, const C* mean)
      : views_{&x, &grad}, walk_(views_), mean_(mean), channels_(walk_.channels) {
    plain.reset(new double[static_cast<size_t>(channels_)]());
    along.reset(new double[static_cast<size_t>(channels_)]());
    if (x.numel == 0) return;
    if (walk_.channels_adjacent)
      by_rows();
    else
      by_channels();
  }
  std::unique_ptr<double[]> plain, along;

 private:
  static constexpr int64_t kMostParts = 64, kLeastElements = 16 * 1024;

  void by_channels() {
    const int64_t elements = walk_.outer * walk_.run;
    parallel_for(channels_, std::max<int64_t>(1, kGrain / elements),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t c = begin; c < end; ++c)
                     for (int64_t i = 0; i < walk_.outer; ++i) take_run(c, i);
                 });
  }

  void take_run(int64_t channel, int64_t number) {
    constexpr int lanes = 128 / static_cast<int>(sizeof(C));
    alignas(64) C buffers[2][kTile];
    const C mean = mean_[channel];
    double sum = 0, product = 0;
    for (int64_t first = 0; first < walk_.run; first += kTile) {
      const int64_t n = std::min(kTile, walk_.run - first);
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
    const std::unique_ptr<C[]> partial(new C[static_cast<size_t>(2 * parts * channels_)]());
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      alignas(64) C buffers[2][kTile];
      for (int64_t part = begin; part < end; ++part) {
        C* const a = partial.get() + 2 * part * channels_;
        C* const b = a + channels_;
        for (int64_t row = part * per_part; row < std::min(rows, (part + 1) * per_part); ++row)
          for (int64_t first = 0; first < channels_; first += kTile) {
            const int64_t n = std::min(kTile, channels_ - first);
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

// A sum without terms is 0 whatever it is multiplied by: the deviation of no elements is NaN.
template <class C>
void store_channels(const View& to, const double* sums, const C* factors, int64_t channels) {
  const std::unique_ptr<C[]> results(new C[static_cast<size_t>(channels)]);
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c)
    results[c] = static_cast<C>(!factors || sums[c] == 0 ? sums[c] : sums[c] * factors[c]);
  store_fn<C>(to.dtype)(results.get(), to.data, 1, channels);
}

template <class C>
void backward(const KernelContext& context, const BatchNormBackwardAttrs& attrs) {
  const View &grad = context.input(0), &x = context.input(1), &dx = context.output(0);
  const int64_t channels = x.sizes[1];
  const auto mean = channel_values<C>(context.in[2], channels, 0),
             variance = channel_values<C>(context.in[3], channels, 1),
             ones = channel_values<C>(nullptr, channels, 1),
             weight = channel_values<C>(optional_input(context, 4), channels, 1);
  const auto rstd = scales<C>(variance.get(), ones.get(), attrs.eps, channels);
  const auto scale = scales<C>(variance.get(), weight.get(), attrs.eps, channels);
  // dx = scale * (g - constant - slope * (x - mean))
  const auto constant = channel_values<C>(nullptr, channels, 0),
             slope = channel_values<C>(nullptr, channels, 0);
  if (attrs.training || attrs.weight || attrs.bias) {
    const GradientSums<C> sums(grad, x, mean.get());
    const double count = static_cast<double>(x.numel) / static_cast<double>(channels);
    for (size_t c = 0; attrs.training && c < static_cast<size_t>(channels); ++c) {
      constant[c] = static_cast<C>(sums.plain[c] / count);
      slope[c] = static_cast<C>(sums.along[c] / count * rstd[c] * rstd[c]);
    }
    size_t next = 1;
    if (attrs.weight)
      store_channels<C>(context.output(next++), sums.along.get(), rstd.get(), channels);
    if (attrs.bias) store_channels<C>(context.output(next), sums.plain.get(), nullptr, channels);
  }
  const View* const views[3] = {&dx, &grad, &x};
  transform<C, 3>(ChannelWalk<3>(views), [&](int64_t channel, bool beside, const C* const* in,
                                             C* out, int64_t n) {
    const C *const g = in[1], *const v = in[2], *const s = scale.get() + channel,
                   *const a = constant.get() + channel, *const b = slope.get() + channel,
                   *const m = mean.get() + channel;
    if (beside) {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) out[j] = s[j] * (g[j] - a[j] - b[j] * (v[j] - m[j]));
      return;
    }
    const C factor = s[0], plain = a[0], along = b[0], center = m[0];
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) out[j] = factor * (g[j] - plain - along * (v[j] - center));
  });
}

void backward_kernel(const KernelContext& context, const BatchNormBackwardAttrs& attrs) {
  visit_compute_floating(context.input(1).dtype, [&]<class C>() { backward<C>(context, attrs); });
}

void update_kernel(const KernelContext& context, const BatchNormUpdateAttrs& attrs) {
  const int64_t channels = context.output().numel;
  const double count = static_cast<double>(attrs.count);
  for (size_t i = 0; i < 2; ++i) {
    const auto running = channel_values<double>(&context.input(i), channels, 0),
               fresh = channel_values<double>(&context.input(i + 2), channels, 0);
    const double factor = attrs.momentum * (i == 1 ? count / (count - 1) : 1);
    for (size_t c = 0; c < static_cast<size_t>(channels); ++c)
      running[c] = running[c] * (1 - attrs.momentum) + fresh[c] * factor;
    const View& out = context.output(i);
    store_fn<double>(out.dtype)(running.get(), out.data, out.strides[0], channels);
  }
}

}  // namespace

void register_batch_norm_cpu() {
  batch_norm_op.set_kernel(DeviceType::cpu, batch_norm_kernel);
  batch_norm_backward_op.set_kernel(DeviceType::cpu, backward_kernel);
  batch_norm_update_op.set_kernel(DeviceType::cpu, update_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

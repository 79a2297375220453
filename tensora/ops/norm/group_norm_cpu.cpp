#include <vector>

#include "tensora/backend/cpu/copy.h"
#include "tensora/ops/norm/channel_loops.h"
#include "tensora/ops/norm/group_norm_ops.h"
#include "tensora/ops/reduce/variance_functors.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

const View* optional_input(const KernelContext& context, size_t i) {
  return i < context.in.size() ? context.in[i] : nullptr;
}

/// An input in row-major order; copied if it has another.
class RowMajor {
 public:
  explicit RowMajor(const View& view) : view_(view) {
    if (view.contiguous) return;
    copy_.resize(view.bytes());
    view_.data = copy_.data();
    view_.strides = contiguous_strides(view.sizes);
    view_.update();
    copy_elements(view, view_);
  }
  const View& view() const { return view_; }

 private:
  std::vector<char> copy_;
  View view_;
};

/// values[plane] for every sample and channel: by channel, or by sample and group.
template <class C>
std::vector<C> by_plane(const std::vector<C>& values, int64_t planes, int64_t repeat,
                        int64_t count) {
  std::vector<C> result(static_cast<size_t>(planes));
  for (int64_t i = 0; i < planes; ++i)
    result[static_cast<size_t>(i)] = values[static_cast<size_t>(i / repeat % count)];
  return result;
}

View flat(View view) {
  view.sizes = {view.numel};
  view.strides = {1};
  view.update();
  return view;
}

/// `count` planes or values from the one with number `first`.
View part_of(View view, int dim, int64_t first, int64_t count) {
  const auto bytes = static_cast<int64_t>(element_size(view.dtype));
  view.data = view.as<char>() + first * view.strides[dim] * bytes;
  view.sizes[dim] = count;
  view.update();
  return view;
}

// Rows are the groups of all samples, one after the other.
template <class C>
void normalise(const KernelContext& context, const GroupNormAttrs& attrs, const View& x,
               int64_t first, int64_t rows) {
  const int64_t channels = x.sizes[1], per_group = channels / attrs.num_groups;
  const int64_t first_plane = first * per_group, planes = rows * per_group;
  const View groups = part_of(as_planes(x, per_group), 1, first, rows);
  const View mean = part_of(flat(context.output(1)), 0, first, rows),
             variance = part_of(flat(context.output(2)), 0, first, rows);
  const reductions::Variance<C> functor{{}, static_cast<double>(groups.sizes[2]), false};
  static constexpr ReduceTiles tiles = reduce_tiles<reductions::Variance<C>>();
  const View* const statistics[2] = {&variance, &mean};
  run_reduction(groups, 5u, statistics, tiles, &functor);
  if (x.numel == 0) return;
  const auto of_channels = [&](size_t input, C fallback) {
    const auto values = channel_values<C>(optional_input(context, input), channels, fallback);
    std::vector<C> result(static_cast<size_t>(planes));
    for (int64_t i = 0; i < planes; ++i)
      result[static_cast<size_t>(i)] = values[static_cast<size_t>((first_plane + i) % channels)];
    return result;
  };
  const auto means = by_plane<C>(channel_values<C>(&mean, rows, 0), planes, per_group, rows),
             variances =
                 by_plane<C>(channel_values<C>(&variance, rows, 1), planes, per_group, rows),
             weights = of_channels(1, 1), biases = of_channels(2, 0);
  const auto scale = scales<C>(variances.data(), weights.data(), attrs.eps, planes);
  apply_channels<C>(part_of(as_planes(context.output(), 1), 1, first_plane, planes),
                    part_of(as_planes(x, 1), 1, first_plane, planes), means.data(), scale.data(),
                    biases.data());
}

// A few groups at a time, which are still in the cache when they are read again. Where there are
// few groups, or large ones, or the result is written past the cache, all of them at once. The
// parts depend on the shape alone.
template <class C>
void forward(const KernelContext& context, const GroupNormAttrs& attrs) {
  constexpr int64_t kPartBytes = 256 * 1024, kManyRows = 16;
  const RowMajor x(context.input(0));
  const int64_t rows = context.output(1).numel;
  if (rows == 0) return;
  const int64_t row_bytes = std::max<int64_t>(1, static_cast<int64_t>(x.view().bytes()) / rows);
  const bool in_parts =
      rows >= kManyRows && row_bytes <= kPartBytes && context.output().bytes() < kStreamBytes;
  const int64_t part = in_parts ? kPartBytes / row_bytes : rows;
  parallel_for((rows + part - 1) / part, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      normalise<C>(context, attrs, x.view(), i * part, std::min(part, rows - i * part));
  });
}

template <class C>
void backward(const KernelContext& context, const GroupNormBackwardAttrs& attrs) {
  const RowMajor grad(context.input(0)), x(context.input(1)), mean(context.input(2)),
      variance(context.input(3));
  const int64_t samples = x.view().sizes[0], channels = x.view().sizes[1];
  const int64_t per_group = channels / attrs.num_groups, planes = samples * channels;
  const int64_t rows = samples * attrs.num_groups;
  const View mean_view = flat(mean.view()), variance_view = flat(variance.view());
  const auto ones = channel_values<C>(nullptr, rows, 1);
  const auto row_variance = channel_values<C>(&variance_view, rows, 1);
  const auto rstd = scales<C>(row_variance.data(), ones.data(), attrs.eps, rows);
  const auto means = by_plane<C>(channel_values<C>(&mean_view, rows, 0), planes, per_group, rows);
  const auto weight = channel_values<C>(optional_input(context, 4), channels, 1);
  const View gradients = as_planes(grad.view(), 1), elements = as_planes(x.view(), 1);
  const GradientSums<C> sums(gradients, elements, means.data());
  // Per plane: dx = scale * g - factor * (x - mean) - term
  auto scale = channel_values<C>(nullptr, planes, 0), factor = scale, term = scale;
  std::vector<double> of_weight(static_cast<size_t>(channels)),
      of_bias(static_cast<size_t>(channels));
  const double count = static_cast<double>(per_group * elements.sizes[2]);
  for (int64_t row = 0; row < rows; ++row) {
    const double r = rstd[static_cast<size_t>(row)];
    double plain = 0, along = 0;
    for (int64_t d = 0; d < per_group; ++d) {
      const auto plane = static_cast<size_t>(row * per_group + d);
      const auto channel = plane % static_cast<size_t>(channels);
      plain += sums.plain[plane] * weight[channel];
      along += sums.along[plane] * weight[channel];
      of_bias[channel] += sums.plain[plane];
      if (sums.along[plane] != 0) of_weight[channel] += sums.along[plane] * r;
    }
    for (int64_t d = 0; d < per_group; ++d) {
      const auto plane = static_cast<size_t>(row * per_group + d);
      scale[plane] = static_cast<C>(r * weight[plane % static_cast<size_t>(channels)]);
      factor[plane] = static_cast<C>(along / count * r * r * r);
      term[plane] = static_cast<C>(plain / count * r);
    }
  }
  const auto store = [&](const View& to, const double* from) {
    store_fn<double>(to.dtype)(from, to.data, 1, channels);
  };
  size_t next = 1;
  if (attrs.weight) store(context.output(next++), of_weight.data());
  if (attrs.bias) store(context.output(next), of_bias.data());
  const View out = as_planes(context.output(), 1);
  const View* const views[3] = {&out, &gradients, &elements};
  transform<C, 3>(ChannelWalk<3>(views), [&](int64_t channel, bool beside, const C* const* in,
                                             C* to, int64_t n) {
    const C *const g = in[1], *const v = in[2];
    for (int64_t j = 0; beside && j < n; ++j) {  // planes of one element
      const auto plane = static_cast<size_t>(channel + j);
      to[j] = scale[plane] * g[j] - factor[plane] * (v[j] - means[plane]) - term[plane];
    }
    if (beside) return;
    const auto plane = static_cast<size_t>(channel);
    const C a = scale[plane], b = factor[plane], center = means[plane], c = term[plane];
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) to[j] = a * g[j] - b * (v[j] - center) - c;
  });
}

void group_norm_kernel(const KernelContext& context, const GroupNormAttrs& attrs) {
  visit_compute_floating(context.input(0).dtype, [&]<class C>() { forward<C>(context, attrs); });
}
void backward_kernel(const KernelContext& context, const GroupNormBackwardAttrs& attrs) {
  visit_compute_floating(context.input(1).dtype, [&]<class C>() { backward<C>(context, attrs); });
}

}  // namespace

void register_group_norm_cpu() {
  group_norm_op.set_kernel(DeviceType::cpu, group_norm_kernel);
  group_norm_backward_op.set_kernel(DeviceType::cpu, backward_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

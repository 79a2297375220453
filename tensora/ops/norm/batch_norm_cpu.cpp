#include "tensora/backend/cpu/reduce.h"
#include "tensora/ops/norm/channel_loops.h"
#include "tensora/ops/norm/channel_norm.h"
#include "tensora/ops/reduce/variance_functors.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

const View* optional_input(const KernelContext& context, size_t i) {
  return i < context.in.size() ? context.in[i] : nullptr;
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
    const auto scale = scales<C>(variance.data(), weight.data(), attrs.eps, channels);
    apply_channels<C>(y, x, mean.data(), scale.data(), bias.data());
  });
}

// ---- backward ----------------------------------------------------------------------------------

// A sum without terms is 0 whatever it is multiplied by: the deviation of no elements is NaN.
template <class C>
void store_channels(const View& to, const double* sums, const C* factors, int64_t channels) {
  std::vector<C> results(static_cast<size_t>(channels));
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c)
    results[c] = static_cast<C>(!factors || sums[c] == 0 ? sums[c] : sums[c] * factors[c]);
  store_fn<C>(to.dtype)(results.data(), to.data, 1, channels);
}

template <class C>
void backward(const KernelContext& context, const BatchNormBackwardAttrs& attrs) {
  const View &grad = context.input(0), &x = context.input(1), &dx = context.output(0);
  const int64_t channels = x.sizes[1];
  const auto mean = channel_values<C>(context.in[2], channels, 0),
             variance = channel_values<C>(context.in[3], channels, 1),
             ones = channel_values<C>(nullptr, channels, 1),
             weight = channel_values<C>(optional_input(context, 4), channels, 1);
  const auto rstd = scales<C>(variance.data(), ones.data(), attrs.eps, channels);
  const auto scale = scales<C>(variance.data(), weight.data(), attrs.eps, channels);
  // dx = scale * (g - constant - slope * (x - mean))
  auto constant = channel_values<C>(nullptr, channels, 0), slope = constant;
  if (attrs.training || attrs.weight || attrs.bias) {
    const GradientSums<C> sums(grad, x, mean.data());
    const double count = static_cast<double>(x.numel) / static_cast<double>(channels);
    for (size_t c = 0; attrs.training && c < static_cast<size_t>(channels); ++c) {
      constant[c] = static_cast<C>(sums.plain[c] / count);
      slope[c] = static_cast<C>(sums.along[c] / count * rstd[c] * rstd[c]);
    }
    size_t next = 1;
    if (attrs.weight)
      store_channels<C>(context.output(next++), sums.along.data(), rstd.data(), channels);
    if (attrs.bias) store_channels<C>(context.output(next), sums.plain.data(), nullptr, channels);
  }
  const View* const views[3] = {&dx, &grad, &x};
  transform<C, 3>(ChannelWalk<3>(views), [&](int64_t channel, bool beside, const C* const* in,
                                             C* out, int64_t n) {
    const C *const g = in[1], *const v = in[2], *const s = scale.data() + channel,
                   *const a = constant.data() + channel, *const b = slope.data() + channel,
                   *const m = mean.data() + channel;
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
    auto running = channel_values<double>(&context.input(i), channels, 0);
    const auto fresh = channel_values<double>(&context.input(i + 2), channels, 0);
    const double factor = attrs.momentum * (i == 1 ? count / (count - 1) : 1);
    for (size_t c = 0; c < static_cast<size_t>(channels); ++c)
      running[c] = running[c] * (1 - attrs.momentum) + fresh[c] * factor;
    const View& out = context.output(i);
    store_fn<double>(out.dtype)(running.data(), out.data, out.strides[0], channels);
  }
}

}  // namespace

void register_batch_norm_cpu() {
  batch_norm_op.set_kernel(DeviceType::cpu, batch_norm_kernel);
  batch_norm_backward_op.set_kernel(DeviceType::cpu, backward_kernel);
  batch_norm_update_op.set_kernel(DeviceType::cpu, update_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

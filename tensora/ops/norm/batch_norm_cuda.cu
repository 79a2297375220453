#include "tensora/ops/norm/batch_norm_held.h"
#include "tensora/ops/norm/batch_norm_relu_op.h"
#include "tensora/ops/norm/channel_kernels.cuh"
#include "tensora/ops/norm/channel_norm.h"

namespace tensora::cuda {
namespace {

const View* optional_input(const KernelContext& context, size_t i) {
  return i < context.in.size() ? context.in[i] : nullptr;
}

struct FinishParams {
  const ChannelSums<double>* partial;
  unsigned parts, channels;
  ChannelValues variance, weight;
  double eps, count;
  char *of_weight, *of_bias;  // or null
  DType dtype;                // of these
  int bytes;
  ChannelSums<double>* common;  // what the gradient of the input needs: see ChannelGradientParams
};

__global__ void __launch_bounds__(kChannelThreads)
    finish_gradients(const __grid_constant__ FinishParams params) {
  const unsigned channel = (blockIdx.x * kChannelThreads + threadIdx.x) / kWarpThreads;
  if (channel >= params.channels) return;  // a whole warp
  const ChannelSums<double> sums =
      total_sums(params.partial, params.parts, params.channels, channel);
  if (threadIdx.x % kWarpThreads != 0) return;
  const double rstd = 1 / sqrt(params.variance.at(channel, 1.0) + params.eps);
  // A sum without terms is 0, though the deviation of no elements is NaN.
  const double of_weight = sums.second == 0 ? 0 : sums.second * rstd;
  if (params.of_weight)
    store_any<double>(params.of_weight + channel * params.bytes, params.dtype, of_weight);
  if (params.of_bias)
    store_any<double>(params.of_bias + channel * params.bytes, params.dtype, sums.first);
  const double share = -params.weight.at(channel, 1.0) * rstd / params.count;
  params.common[channel] = {share * sums.first, share * rstd * rstd * sums.second};
}

void batch_norm_kernel(const KernelContext& context, const BatchNormAttrs& attrs) {
  const bool planes = reads_planes(context.input(0));
  const ChannelInput x(context, context.input(0), planes);
  const ChannelOutput y(context, context.output(), planes);
  const int device = context.device.index;
  ApplyParams params{};
  const View* const views[2] = {&y.view(), &x.view()};
  const ChannelGrid grid =
      arrange_channels<2>(views, planes, device_info(device).multiprocessors, params.arrays);
  params.weight = channel_values(optional_input(context, 3));
  params.bias = channel_values(optional_input(context, 4));
  params.eps = attrs.eps;
  if (attrs.training &&
      normalise_held_channels(context.op, device, grid, params, context.output(1).as<float>(),
                              context.output(2).as<float>()))
    return y.finish();
  if (attrs.training) find_moments(context, x.view(), planes, context.output(1), context.output(2));
  if (x.view().numel == 0) return;
  params.mean = channel_values(attrs.training ? &context.output(1) : context.in[1]);
  params.variance = channel_values(attrs.training ? &context.output(2) : context.in[2]);
  visit_grid(grid, x.view().dtype, [&]<bool kPlanes, class C, int kPack>() {
    Launch{context.op, device}(apply_kernel<kPlanes, C, kPack>, grid.blocks, grid.block, params);
  });
  y.finish();
}

// The sums of all parts become the gradients of weight and bias, where wanted, and `common`, which
// the gradient of the input needs.
struct Sums {
  const ChannelSums<double>* partial;
  unsigned parts, channels;
  double count;  // elements of a channel
};
void finish(const Launch& launch, const Sums& sums, const ChannelGradientParams& params,
            const View* of_weight, const View* of_bias, ChannelSums<double>* common) {
  FinishParams finish{};
  finish.partial = sums.partial;
  finish.parts = sums.parts;
  finish.channels = sums.channels;
  finish.variance = params.variance;
  finish.weight = params.weight;
  finish.eps = params.eps;
  finish.count = sums.count;
  if (of_weight) finish.of_weight = of_weight->as<char>();
  if (of_bias) finish.of_bias = of_bias->as<char>();
  if (const View* const any = of_weight ? of_weight : of_bias) {
    finish.dtype = any->dtype;
    finish.bytes = static_cast<int>(element_size(any->dtype));
  }
  finish.common = common;
  launch(finish_gradients, warps_for(sums.channels), dim3(kChannelThreads), finish);
}

double elements_per_channel(const View& view) {
  return static_cast<double>(view.numel) / static_cast<double>(view.sizes[1]);
}

void backward_kernel(const KernelContext& context, const BatchNormBackwardAttrs& attrs) {
  const int device = context.device.index;
  const Launch launch{context.op, device};
  const int processors = device_info(device).multiprocessors;
  const bool planes = reads_planes(context.input(1));
  const ChannelInput grad(context, context.input(0), planes), x(context, context.input(1), planes);
  const ChannelOutput dx(context, context.output(), planes);
  const DType dtype = x.view().dtype;
  ChannelGradientParams params{};
  params.mean = channel_values(context.in[2]);
  params.variance = channel_values(context.in[3]);
  params.weight = channel_values(optional_input(context, 4));
  params.eps = attrs.eps;
  std::optional<Scratch> partial, common;
  if (attrs.training || attrs.weight || attrs.bias) {
    const View* const views[2] = {&grad.view(), &x.view()};
    ChannelArrays<2> arrays{};
    const ChannelGrid grid = arrange_channels<2>(views, planes, processors, arrays);
    partial.emplace(device, sums_bytes(arrays.parts, arrays.channels));
    common.emplace(device, sums_bytes(1, arrays.channels));
    auto* const sums = reinterpret_cast<ChannelSums<double>*>(partial->data());
    visit_grid(grid, dtype, [&]<bool kPlanes, class C, int kPack>() {
      launch(gradient_sums<kPlanes, C, kPack>, grid.blocks, grid.block, arrays, params.mean, sums);
    });
    size_t next = 1;
    const View* const of_weight = attrs.weight ? &context.output(next++) : nullptr;
    const View* const of_bias = attrs.bias ? &context.output(next++) : nullptr;
    auto* const shared = reinterpret_cast<ChannelSums<double>*>(common->data());
    finish(launch, {sums, arrays.parts, arrays.channels, elements_per_channel(x.view())}, params,
           of_weight, of_bias, shared);
    params.per_common = 1;
    if (attrs.training) params.common = shared;
  }
  if (x.view().numel == 0) return;
  const View* const views[3] = {&dx.view(), &grad.view(), &x.view()};
  const ChannelGrid grid = arrange_channels<3>(views, planes, processors, params.arrays);
  visit_grid(grid, dtype, [&]<bool kPlanes, class C, int kPack>() {
    launch(gradient_kernel<kPlanes, C, kPack>, grid.blocks, grid.block, params);
  });
  dx.finish();
}

// ---- with a rectifier --------------------------------------------------------------------------

template <int K>
struct ReluParams {
  ChannelArrays<K> arrays;
  ChannelValues mean, variance, weight, bias;
  double eps;
};

/// The constants of the channels that a thread has.
template <bool kPlanes, class C, int kPack>
struct ReluChannels {
  static constexpr int kOwn = kChannelsPerThread<kPlanes, kPack>;
  C mean[kOwn], scale[kOwn], bias[kOwn];

  template <int K>
  __device__ explicit ReluChannels(const ReluParams<K>& params) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const unsigned channel = channel_of<kPlanes, kPack>(params.arrays, i);
      mean[i] = params.mean.at(channel, C(0));
      scale[i] = params.weight.at(channel, C(1)) /
                 math::sqrt(params.variance.at(channel, C(1)) + static_cast<C>(params.eps));
      bias[i] = params.bias.at(channel, C(0));
    }
  }
  /// Of element i of a pack.
  __device__ static constexpr int own(int i) { return i < kOwn - 1 ? i : kOwn - 1; }
};

// K = 2: result, input; K = 3: and what is added.
template <bool kPlanes, class C, int kPack, int K>
__global__ void __launch_bounds__(kChannelThreads)
    relu_kernel(const __grid_constant__ ReluParams<K> params) {
  using Channels = ReluChannels<kPlanes, C, kPack>;
  const Channels channels(params);
  visit_row_dtype<kPack>(params.arrays.dtype, [&]<class T>() {
    each_pack<kPlanes, kPack>(params.arrays, [&](char* const(&at)[K]) {
      C values[kPack], added[kPack];
      read_pack<T>(at[1], values);
      if constexpr (K == 3) read_pack<T>(at[2], added);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const int own = Channels::own(i);
        values[i] = (values[i] - channels.mean[own]) * channels.scale[own] + channels.bias[own];
        if constexpr (K == 3) values[i] += added[i];
        values[i] = values[i] < 0 ? C(0) : values[i];
      }
      store_elements<T>(at[0], 0, 0, values);
    });
  });
}

// gradient_sums of what passes the rectifier. K = 2: grad, input; K = 4: and the result, by which
// it is decided, and where what passes is written.
template <bool kPlanes, class C, int kPack, int K>
__global__ void __launch_bounds__(kChannelThreads)
    relu_gradient_sums(const __grid_constant__ ReluParams<K> params, ChannelSums<double>* partial) {
  using Channels = ReluChannels<kPlanes, C, kPack>;
  const Channels channels(params);
  C plain[Channels::kOwn] = {}, along[Channels::kOwn] = {};
  visit_row_dtype<kPack>(params.arrays.dtype, [&]<class T>() {
    each_pack<kPlanes, kPack>(params.arrays, [&](char* const(&at)[K]) {
      C grad[kPack], x[kPack], result[kPack];
      read_pack<T>(at[0], grad);
      read_pack<T>(at[1], x);
      if constexpr (K == 4) read_pack<T>(at[2], result);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const int own = Channels::own(i);
        const C distance = x[i] - channels.mean[own];
        if constexpr (K == 2) result[i] = distance * channels.scale[own] + channels.bias[own];
        if (result[i] <= 0) grad[i] = 0;
        plain[own] += grad[i];
        along[own] += grad[i] * distance;
      }
      if constexpr (K == 4) store_elements<T>(at[3], 0, 0, grad);
    });
  });
  leave_channel_sums<kPlanes, kPack, C>(params.arrays, plain, along, partial);
}

template <int K>
ReluParams<K> relu_params(const View& mean, const View& variance, const View& weight,
                          const View& bias, double eps) {
  ReluParams<K> params{};
  params.mean = channel_values(&mean);
  params.variance = channel_values(&variance);
  params.weight = channel_values(&weight);
  params.bias = channel_values(&bias);
  params.eps = eps;
  return params;
}

void batch_norm_relu_kernel(const KernelContext& context, const BatchNormReluAttrs& attrs) {
  const Launch launch{context.op, context.device.index};
  const int processors = device_info(context.device.index).multiprocessors;
  const bool planes = reads_planes(context.input(0));
  const ChannelInput x(context, context.input(0), planes);
  const ChannelOutput y(context, context.output(), planes);
  find_moments(context, x.view(), planes, context.output(1), context.output(2));
  if (x.view().numel == 0) return;
  const auto run = [&]<int K>(const View* const(&views)[K]) {
    auto params = relu_params<K>(context.output(1), context.output(2), context.input(1),
                                 context.input(2), attrs.eps);
    const ChannelGrid grid = arrange_channels<K>(views, planes, processors, params.arrays);
    visit_grid(grid, x.view().dtype, [&]<bool kPlanes, class C, int kPack>() {
      launch(relu_kernel<kPlanes, C, kPack, K>, grid.blocks, grid.block, params);
    });
  };
  if (const View* const residual = optional_input(context, 3)) {
    const ChannelInput added(context, *residual, planes);
    const View* const views[3] = {&y.view(), &x.view(), &added.view()};
    run(views);
  } else {
    const View* const views[2] = {&y.view(), &x.view()};
    run(views);
  }
  y.finish();
}

void relu_backward_kernel(const KernelContext& context, const BatchNormReluAttrs& attrs) {
  const int device = context.device.index;
  const Launch launch{context.op, device};
  const int processors = device_info(device).multiprocessors;
  const bool planes = reads_planes(context.input(1));
  const ChannelInput grad(context, context.input(0), planes), x(context, context.input(1), planes);
  const ChannelOutput dx(context, context.output(), planes);
  const View* const result = optional_input(context, 6);
  const DType dtype = x.view().dtype;
  const Scratch common(device, sums_bytes(1, static_cast<size_t>(x.view().sizes[1])));
  auto* const shared = reinterpret_cast<ChannelSums<double>*>(common.data());
  ChannelGradientParams params{};
  params.mean = channel_values(context.in[2]);
  params.variance = channel_values(context.in[3]);
  params.weight = channel_values(context.in[4]);
  params.bias = channel_values(context.in[5]);
  params.eps = attrs.eps;
  params.common = shared;
  params.per_common = 1;
  const auto add_up = [&]<int K>(const View* const(&views)[K]) {
    auto rectified = relu_params<K>(context.input(2), context.input(3), context.input(4),
                                    context.input(5), attrs.eps);
    ChannelArrays<K>& arrays = rectified.arrays;
    const ChannelGrid grid = arrange_channels<K>(views, planes, processors, arrays);
    const Scratch partial(device, sums_bytes(arrays.parts, arrays.channels));
    auto* const sums = reinterpret_cast<ChannelSums<double>*>(partial.data());
    visit_grid(grid, dtype, [&]<bool kPlanes, class C, int kPack>() {
      launch(relu_gradient_sums<kPlanes, C, kPack, K>, grid.blocks, grid.block, rectified, sums);
    });
    finish(launch, {sums, arrays.parts, arrays.channels, elements_per_channel(x.view())}, params,
           &context.output(1), &context.output(2), shared);
  };
  const auto run = [&]<bool kRectified>(const View& of_result) {
    if (x.view().numel == 0) return;
    const View* const views[3] = {&dx.view(), &of_result, &x.view()};
    const ChannelGrid grid = arrange_channels<3>(views, planes, processors, params.arrays);
    visit_grid(grid, dtype, [&]<bool kPlanes, class C, int kPack>() {
      launch(gradient_kernel<kPlanes, C, kPack, kRectified>, grid.blocks, grid.block, params);
    });
  };
  if (result) {
    const ChannelInput y(context, *result, planes);
    const ChannelOutput passed(context, context.output(3), planes);
    const View* const views[4] = {&grad.view(), &x.view(), &y.view(), &passed.view()};
    add_up(views);
    run.template operator()<false>(passed.view());
    passed.finish();
  } else {
    const View* const views[2] = {&grad.view(), &x.view()};
    add_up(views);
    run.template operator()<true>(grad.view());
  }
  dx.finish();
}

struct UpdateParams {
  ChannelValues running[2], fresh[2];
  char* out[2];
  DType dtype[2];
  long long stride[2];
  double keep, take[2];
  unsigned channels;
};

__global__ void __launch_bounds__(kChannelThreads)
    update_running(const __grid_constant__ UpdateParams params) {
  const unsigned channel = blockIdx.x * kChannelThreads + threadIdx.x;
  if (channel >= params.channels) return;
  for (int i = 0; i < 2; ++i) {
    const double value = params.running[i].at(channel, 0.0) * params.keep +
                         params.fresh[i].at(channel, 0.0) * params.take[i];
    store_any<double>(params.out[i] + channel * params.stride[i], params.dtype[i], value);
  }
}

void update_kernel(const KernelContext& context, const BatchNormUpdateAttrs& attrs) {
  const double count = static_cast<double>(attrs.count);
  UpdateParams params{};
  for (size_t i = 0; i < 2; ++i) {
    const View& out = context.output(i);
    params.running[i] = channel_values(context.in[i]);
    params.fresh[i] = channel_values(context.in[i + 2]);
    params.out[i] = out.as<char>();
    params.dtype[i] = out.dtype;
    params.stride[i] = out.strides[0] * static_cast<long long>(element_size(out.dtype));
    params.take[i] = attrs.momentum * (i == 1 ? count / (count - 1) : 1);
  }
  params.keep = 1 - attrs.momentum;
  params.channels = static_cast<unsigned>(context.output().numel);
  const dim3 blocks((params.channels + kChannelThreads - 1) / kChannelThreads);
  Launch{context.op, context.device.index}(update_running, blocks, dim3(kChannelThreads), params);
}

}  // namespace

void register_batch_norm_cuda() {
  batch_norm_op.set_kernel(DeviceType::cuda, batch_norm_kernel);
  batch_norm_backward_op.set_kernel(DeviceType::cuda, backward_kernel);
  batch_norm_update_op.set_kernel(DeviceType::cuda, update_kernel);
  batch_norm_relu_op.set_kernel(DeviceType::cuda, batch_norm_relu_kernel);
  batch_norm_relu_backward_op.set_kernel(DeviceType::cuda, relu_backward_kernel);
}

}  // namespace tensora::cuda

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
  ChannelSums<double>* common;  // what the gradient of the input needs: see GradientParams
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
  if (attrs.training) find_moments(context, x.view(), planes, context.output(1), context.output(2));
  if (x.view().numel == 0) return;
  ApplyParams params{};
  const View* const views[2] = {&y.view(), &x.view()};
  const ChannelGrid grid = arrange_channels<2>(
      views, planes, device_info(context.device.index).multiprocessors, params.arrays);
  params.mean = channel_values(attrs.training ? &context.output(1) : context.in[1]);
  params.variance = channel_values(attrs.training ? &context.output(2) : context.in[2]);
  params.weight = channel_values(optional_input(context, 3));
  params.bias = channel_values(optional_input(context, 4));
  params.eps = attrs.eps;
  visit_grid(grid, x.view().dtype, [&]<bool kPlanes, class C, int kPack>() {
    Launch{context.op, context.device.index}(apply_kernel<kPlanes, C, kPack>, grid.blocks,
                                             grid.block, params);
  });
  y.finish();
}

void backward_kernel(const KernelContext& context, const BatchNormBackwardAttrs& attrs) {
  const int device = context.device.index;
  const Launch launch{context.op, device};
  const int processors = device_info(device).multiprocessors;
  const bool planes = reads_planes(context.input(1));
  const ChannelInput grad(context, context.input(0), planes), x(context, context.input(1), planes);
  const ChannelOutput dx(context, context.output(), planes);
  const DType dtype = x.view().dtype;
  GradientParams params{};
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
    FinishParams finish{};
    finish.partial = sums;
    finish.parts = arrays.parts;
    finish.channels = arrays.channels;
    finish.variance = params.variance;
    finish.weight = params.weight;
    finish.eps = attrs.eps;
    finish.count = static_cast<double>(x.view().numel) / static_cast<double>(arrays.channels);
    size_t next = 1;
    const View* const of_weight = attrs.weight ? &context.output(next++) : nullptr;
    const View* const of_bias = attrs.bias ? &context.output(next++) : nullptr;
    if (of_weight) finish.of_weight = of_weight->as<char>();
    if (of_bias) finish.of_bias = of_bias->as<char>();
    if (const View* const any = of_weight ? of_weight : of_bias) {
      finish.dtype = any->dtype;
      finish.bytes = static_cast<int>(element_size(any->dtype));
    }
    finish.common = reinterpret_cast<ChannelSums<double>*>(common->data());
    launch(finish_gradients, warps_for(arrays.channels), dim3(kChannelThreads), finish);
    params.per_common = 1;
    if (attrs.training) params.common = finish.common;
  }
  if (x.view().numel == 0) return;
  const View* const views[3] = {&dx.view(), &grad.view(), &x.view()};
  const ChannelGrid grid = arrange_channels<3>(views, planes, processors, params.arrays);
  visit_grid(grid, dtype, [&]<bool kPlanes, class C, int kPack>() {
    launch(gradient_kernel<kPlanes, C, kPack>, grid.blocks, grid.block, params);
  });
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
}

}  // namespace tensora::cuda

#include "tensora/ops/norm/channel_norm.h"
#include "tensora/ops/norm/channels.cuh"

namespace tensora::cuda {
namespace {

/// One value per channel, of any floating dtype; `fallback` where there is none.
struct ChannelValues {
  const char* data;
  DType dtype;
  long long stride;  // bytes

  template <class C>
  __device__ C at(unsigned channel, C fallback) const {
    return data ? load_any<C>(data + channel * stride, dtype) : fallback;
  }
};

ChannelValues channel_values(const View* view) {
  if (!view) return {};
  return {view->as<const char>(), view->dtype,
          view->strides[0] * static_cast<long long>(element_size(view->dtype))};
}
const View* optional_input(const KernelContext& context, size_t i) {
  return i < context.in.size() ? context.in[i] : nullptr;
}

// Sums are taken of distances from one element of the channel, its first: no digits are lost where
// the elements lie far from zero.
template <class C>
__device__ C origin_of(const ChannelArrays<1>& x, unsigned channel) {
  return x.packs == 0 ? C(0) : load_any<C>(x.data[0] + channel * x.channel[0], x.dtype);
}

template <bool kPlanes, class C, int kPack>
__global__ void __launch_bounds__(kChannelThreads)
    moments_kernel(const __grid_constant__ ChannelArrays<1> x, ChannelSums<double>* partial) {
  constexpr int kOwn = kChannelsPerThread<kPlanes, kPack>;
  C origin[kOwn], sum[kOwn], squares[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    origin[i] = origin_of<C>(x, channel_of<kPlanes, kPack>(x, i));
    sum[i] = squares[i] = 0;
  }
  visit_row_dtype<kPack>(x.dtype, [&]<class T>() {
    each_pack<kPlanes, kPack>(x, [&](char* const(&at)[1]) {
      C values[kPack];
      read_pack<T>(at[0], values);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        constexpr int kLast = kOwn - 1;
        const int own = i < kLast ? i : kLast;
        const C distance = values[i] - origin[own];
        sum[own] += distance;
        squares[own] += distance * distance;
      }
    });
  });
  leave_channel_sums<kPlanes, kPack, C>(x, sum, squares, partial);
}

// A warp per channel.
template <class C>
__global__ void __launch_bounds__(kChannelThreads)
    finish_moments(const __grid_constant__ ChannelArrays<1> x, const ChannelSums<double>* partial,
                   double count, C* mean, C* variance) {
  const unsigned channel = (blockIdx.x * kChannelThreads + threadIdx.x) / kWarpThreads;
  if (channel >= x.channels) return;  // a whole warp
  const ChannelSums<double> sums = total_sums(partial, x.parts, x.channels, channel);
  if (threadIdx.x % kWarpThreads != 0) return;
  const double offset = sums.first / count;
  const double spread = sums.second / count - offset * offset;
  mean[channel] = static_cast<C>(static_cast<double>(origin_of<C>(x, channel)) + offset);
  variance[channel] = static_cast<C>(spread < 0 ? 0 : spread);
}

struct ApplyParams {
  ChannelArrays<2> arrays;  // result, input
  ChannelValues mean, variance, weight, bias;
  double eps;
};

template <bool kPlanes, class C, int kPack>
__global__ void __launch_bounds__(kChannelThreads)
    apply_kernel(const __grid_constant__ ApplyParams params) {
  constexpr int kOwn = kChannelsPerThread<kPlanes, kPack>;
  C mean[kOwn], scale[kOwn], bias[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const unsigned channel = channel_of<kPlanes, kPack>(params.arrays, i);
    mean[i] = params.mean.at(channel, C(0));
    scale[i] = params.weight.at(channel, C(1)) /
               math::sqrt(params.variance.at(channel, C(1)) + static_cast<C>(params.eps));
    bias[i] = params.bias.at(channel, C(0));
  }
  visit_row_dtype<kPack>(params.arrays.dtype, [&]<class T>() {
    each_pack<kPlanes, kPack>(params.arrays, [&](char* const(&at)[2]) {
      C values[kPack];
      read_pack<T>(at[1], values);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        constexpr int kLast = kOwn - 1;
        const int own = i < kLast ? i : kLast;
        values[i] = (values[i] - mean[own]) * scale[own] + bias[own];
      }
      store_elements<T>(at[0], 0, 0, values);
    });
  });
}

// ---- backward ----------------------------------------------------------------------------------

// Sums of grad, and of grad * (x - mean).
template <bool kPlanes, class C, int kPack>
__global__ void __launch_bounds__(kChannelThreads)
    gradient_sums(const __grid_constant__ ChannelArrays<2> arrays /* grad, x */,
                  const ChannelValues mean, ChannelSums<double>* partial) {
  constexpr int kOwn = kChannelsPerThread<kPlanes, kPack>;
  C center[kOwn], plain[kOwn], along[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    center[i] = mean.at(channel_of<kPlanes, kPack>(arrays, i), C(0));
    plain[i] = along[i] = 0;
  }
  visit_row_dtype<kPack>(arrays.dtype, [&]<class T>() {
    each_pack<kPlanes, kPack>(arrays, [&](char* const(&at)[2]) {
      C grad[kPack], x[kPack];
      read_pack<T>(at[0], grad);
      read_pack<T>(at[1], x);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        constexpr int kLast = kOwn - 1;
        const int own = i < kLast ? i : kLast;
        plain[own] += grad[i];
        along[own] += grad[i] * (x[i] - center[own]);
      }
    });
  });
  leave_channel_sums<kPlanes, kPack, C>(arrays, plain, along, partial);
}

struct FinishParams {
  const ChannelSums<double>* partial;
  unsigned parts, channels;
  ChannelValues variance;
  double eps, count;
  char *of_weight, *of_bias;  // or null
  DType dtype;                // of these
  int bytes;
  ChannelSums<double>* common;  // the means that the gradient of the input needs
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
  params.common[channel] = {sums.first / params.count, sums.second / params.count * rstd * rstd};
}

struct GradientParams {
  ChannelArrays<3> arrays;  // gradient of the input, of the result, input
  ChannelValues mean, variance, weight;
  const ChannelSums<double>* common;  // null: the statistics are constants
  double eps;
};

template <bool kPlanes, class C, int kPack>
__global__ void __launch_bounds__(kChannelThreads)
    gradient_kernel(const __grid_constant__ GradientParams params) {
  constexpr int kOwn = kChannelsPerThread<kPlanes, kPack>;
  // scale * (g - constant - slope * (x - mean)) as scale * g + (factor * (x - mean) + term)
  C mean[kOwn], scale[kOwn], factor[kOwn], term[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const unsigned channel = channel_of<kPlanes, kPack>(params.arrays, i);
    mean[i] = params.mean.at(channel, C(0));
    scale[i] = params.weight.at(channel, C(1)) /
               math::sqrt(params.variance.at(channel, C(1)) + static_cast<C>(params.eps));
    factor[i] = term[i] = 0;
    if (params.common) {
      const ChannelSums<double> common = params.common[channel];
      factor[i] = static_cast<C>(-scale[i] * common.second);
      term[i] = static_cast<C>(-scale[i] * common.first);
    }
  }
  visit_row_dtype<kPack>(params.arrays.dtype, [&]<class T>() {
    each_pack<kPlanes, kPack>(params.arrays, [&](char* const(&at)[3]) {
      C grad[kPack], x[kPack];
      read_pack<T>(at[1], grad);
      read_pack<T>(at[2], x);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        constexpr int kLast = kOwn - 1;
        const int own = i < kLast ? i : kLast;
        grad[i] = scale[own] * grad[i] + (factor[own] * (x[i] - mean[own]) + term[own]);
      }
      store_elements<T>(at[0], 0, 0, grad);
    });
  });
}

// ---- launches ----------------------------------------------------------------------------------

/// Calls body.template operator()<kPlanes, C, kPack>().
template <class Body>
void visit_grid(const ChannelGrid& grid, DType dtype, Body&& body) {
  const auto visit = [&]<bool kPlanes>() {
    if (dtype == DType::float64)
      body.template operator()<kPlanes, double, 1>();
    else if (grid.pack == 8)
      body.template operator()<kPlanes, float, 8>();
    else if (grid.pack == 4)
      body.template operator()<kPlanes, float, 4>();
    else
      body.template operator()<kPlanes, float, 1>();
  };
  if (grid.planes)
    visit.template operator()<true>();
  else
    visit.template operator()<false>();
}

dim3 warps_for(unsigned channels) {
  constexpr unsigned kPerBlock = kChannelThreads / kWarpThreads;
  return dim3((channels + kPerBlock - 1) / kPerBlock);
}

size_t sums_bytes(size_t parts, size_t channels) {
  return std::max<size_t>(1, parts * channels * sizeof(ChannelSums<double>));
}

void find_moments(const KernelContext& context, const View& x, bool planes, const View& mean,
                  const View& variance) {
  const Launch launch{context.op, context.device.index};
  const int processors = device_info(context.device.index).multiprocessors;
  const View* const views[1] = {&x};
  ChannelArrays<1> arrays{};
  const ChannelGrid grid = arrange_channels<1>(views, planes, processors, arrays);
  const Scratch scratch(context.device.index, sums_bytes(arrays.parts, arrays.channels));
  auto* const partial = reinterpret_cast<ChannelSums<double>*>(scratch.data());
  const double count = static_cast<double>(x.numel) / static_cast<double>(x.sizes[1]);
  visit_grid(grid, x.dtype, [&]<bool kPlanes, class C, int kPack>() {
    launch(moments_kernel<kPlanes, C, kPack>, grid.blocks, grid.block, arrays, partial);
    launch(finish_moments<C>, warps_for(arrays.channels), dim3(kChannelThreads), arrays,
           static_cast<const ChannelSums<double>*>(partial), count, mean.as<C>(), variance.as<C>());
  });
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

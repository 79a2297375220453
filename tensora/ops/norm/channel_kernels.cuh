#pragma once

// The kernels of batch_norm, of which group_norm is made too.

#include "tensora/core/kernel.h"
#include "tensora/ops/norm/channels.cuh"

namespace tensora::cuda {

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

struct ChannelGradientParams {
  ChannelArrays<3> arrays;                     // gradient of the input, of the result, input
  ChannelValues mean, variance, weight, bias;  // the bias matters to rectified results only
  const ChannelSums<double>* common;           // term and factor below; null: both are 0
  unsigned per_common;                         // channels that share them
  double eps;
};

// kRectified: negative results were replaced by 0, so their gradients are.
template <bool kPlanes, class C, int kPack, bool kRectified = false>
__global__ void __launch_bounds__(kChannelThreads)
    gradient_kernel(const __grid_constant__ ChannelGradientParams params) {
  constexpr int kOwn = kChannelsPerThread<kPlanes, kPack>;
  // scale * g + (factor * (x - mean) + term)
  C mean[kOwn], scale[kOwn], factor[kOwn], term[kOwn], bias[kRectified ? kOwn : 1];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const unsigned channel = channel_of<kPlanes, kPack>(params.arrays, i);
    mean[i] = params.mean.at(channel, C(0));
    scale[i] = params.weight.at(channel, C(1)) /
               math::sqrt(params.variance.at(channel, C(1)) + static_cast<C>(params.eps));
    if constexpr (kRectified) bias[i] = params.bias.at(channel, C(0));
    factor[i] = term[i] = 0;
    if (params.common) {
      const ChannelSums<double> common = params.common[channel / params.per_common];
      term[i] = static_cast<C>(common.first);
      factor[i] = static_cast<C>(common.second);
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
        const C distance = x[i] - mean[own];
        if constexpr (kRectified)
          if (distance * scale[own] + bias[own] <= 0) grad[i] = 0;
        grad[i] = scale[own] * grad[i] + (factor[own] * distance + term[own]);
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

inline dim3 warps_for(unsigned channels) {
  constexpr unsigned kPerBlock = kChannelThreads / kWarpThreads;
  return dim3((channels + kPerBlock - 1) / kPerBlock);
}

inline size_t sums_bytes(size_t parts, size_t channels) {
  return std::max<size_t>(1, parts * channels * sizeof(ChannelSums<double>));
}

/// The mean and the biased variance of each channel.
inline void find_moments(const KernelContext& context, const View& x, bool planes, const View& mean,
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

}  // namespace tensora::cuda

#include "tensora/ops/pool/avg_pool.h"

#include "tensora/ops/pool/pool_planes.cuh"

namespace tensora::cuda {
namespace {

struct AvgPoolParams {
  PoolBox box;
  pool::Windows windows;
  pool::Divisor divisor;
  PoolStrides in_strides, out_strides;
  const void* in;
  void* out;
};

template <class T, class C, int V>
__global__ void __launch_bounds__(kThreads)
    avg_pool_elements(const __grid_constant__ AvgPoolParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.box.count) return;
  const Place at = params.box.place(i);
  const auto& dims = params.windows.dims;
  const int d_end = dims[0].end(at.d), h_first = dims[1].first(at.h);
  const int h_end = dims[1].end(at.h), w_first = dims[2].first(at.w), w_end = dims[2].end(at.w);
  const T* const from = static_cast<const T*>(params.in) + at.n * params.in_strides.of[0] +
                        at.c * params.in_strides.of[1];
  C sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = 0;
  for (int d = dims[0].first(at.d); d < d_end; ++d)
    for (int h = h_first; h < h_end; ++h) {
      const T* const row = from + d * params.in_strides.of[2] + h * params.in_strides.of[3];
      for (int w = w_first; w < w_end; ++w) {
        C value[V];
        load_channels<T, C, V>(row + w * params.in_strides.of[4], value);
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] += value[v];
      }
    }
  const C by = static_cast<C>(params.divisor.of(params.windows, at.d, at.h, at.w));
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] /= by;
  store_channels<T, C, V>(static_cast<T*>(params.out) + params.out_strides.offset(at), sum);
}

// Large windows: a warp for each output.
template <class T, class C>
__global__ void __launch_bounds__(kThreads)
    avg_pool_windows(const __grid_constant__ AvgPoolParams params) {
  const unsigned i = (blockIdx.x * kThreads + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (i >= params.box.count) return;
  const Place at = params.box.place(i);
  const auto& dims = params.windows.dims;
  const int d_end = dims[0].end(at.d), h_first = dims[1].first(at.h);
  const int h_end = dims[1].end(at.h), w_first = dims[2].first(at.w), w_end = dims[2].end(at.w);
  const T* const from = static_cast<const T*>(params.in) + at.n * params.in_strides.of[0] +
                        at.c * params.in_strides.of[1];
  C sum = 0;
  for (int d = dims[0].first(at.d); d < d_end; ++d)
    for (int h = h_first; h < h_end; ++h) {
      const T* const row = from + d * params.in_strides.of[2] + h * params.in_strides.of[3];
      for (int w = w_first + static_cast<int>(lane); w < w_end; w += 32)
        sum += load_value<C>(row[w * params.in_strides.of[4]]);
    }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, step);
  if (lane != 0) return;
  const C by = static_cast<C>(params.divisor.of(params.windows, at.d, at.h, at.w));
  static_cast<T*>(params.out)[params.out_strides.offset(at)] = store_value<T>(sum / by);
}

// Each thread collects from the windows that contain its position: no atomics, a fixed order.
template <class T, class C, int V>
__global__ void __launch_bounds__(kThreads)
    avg_pool_gradients(const __grid_constant__ AvgPoolParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.box.count) return;
  const Place at = params.box.place(i);
  const auto& dims = params.windows.dims;
  const int d_end = dims[0].end_window(at.d), h_first = dims[1].first_window(at.h);
  const int h_end = dims[1].end_window(at.h), w_first = dims[2].first_window(at.w);
  const int w_end = dims[2].end_window(at.w);
  C sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = 0;
  for (int d = dims[0].first_window(at.d); d < d_end; ++d)
    for (int h = h_first; h < h_end; ++h)
      for (int w = w_first; w < w_end; ++w) {
        C grad[V];
        load_channels<T, C, V>(
            static_cast<const T*>(params.in) + params.in_strides.offset(at.n, at.c, d, h, w), grad);
        const C by = static_cast<C>(params.divisor.of(params.windows, d, h, w));
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] += grad[v] / by;
      }
  store_channels<T, C, V>(static_cast<T*>(params.out) + params.out_strides.offset(at), sum);
}

// See Note [Windows that the compiler can see].
struct AvgPlanesParams {
  PoolBox box;
  PlaneWindows windows;
  PlaneArray in_array, out_array;
  int fixed;  // what sums are divided by; 0: the number of positions
  bool count_padding;
  const void* in;
  void* out;

  __device__ float divisor(int oh, int ow) const {
    if (fixed != 0) return static_cast<float>(fixed);
    const auto size = [&](const PlaneDim& dim, int o) {
      const int begin = dim.start(o);
      return count_padding ? min(begin + windows.kernel, dim.in + dim.padding) - begin
                           : min(begin + windows.kernel, dim.in) - max(begin, 0);
    };
    return static_cast<float>(size(windows.h, oh) * size(windows.w, ow));
  }
};

template <class T, int V, int kKernel>
__global__ void __launch_bounds__(kThreads)
    avg_pool_planes(const __grid_constant__ AvgPlanesParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.box.count) return;
  const Place at = params.box.place(i);
  const T* const from = static_cast<const T*>(params.in) + params.in_array.start(at);
  float sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = 0;
  each_in_window<kKernel>(params.windows, at.h, at.w, [&](int h, int w, bool inside) {
    float value[V];
#pragma unroll
    for (int v = 0; v < V; ++v) value[v] = 0;
    if (inside) load_channels<T, float, V>(from + params.in_array.offset(h, w), value);
#pragma unroll
    for (int v = 0; v < V; ++v) sum[v] += value[v];
  });
  const float by = params.divisor(at.h, at.w);
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] /= by;
  store_channels<T, float, V>(static_cast<T*>(params.out) + params.out_array.start(at) +
                                  params.out_array.offset(at.h, at.w),
                              sum);
}

template <class T, int V, int kReach>
__global__ void __launch_bounds__(kThreads)
    avg_pool_plane_gradients(const __grid_constant__ AvgPlanesParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.box.count) return;
  const Place at = params.box.place(i);
  const T* const from = static_cast<const T*>(params.in) + params.in_array.start(at);
  float sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = 0;
  each_window_around<kReach>(params.windows, at.h, at.w, [&](int h, int w, bool contains) {
    if (!contains) return;
    float grad[V];
    load_channels<T, float, V>(from + params.in_array.offset(h, w), grad);
    const float by = params.divisor(h, w);
#pragma unroll
    for (int v = 0; v < V; ++v) sum[v] += grad[v] / by;
  });
  store_channels<T, float, V>(static_cast<T*>(params.out) + params.out_array.start(at) +
                                  params.out_array.offset(at.h, at.w),
                              sum);
}

AvgPlanesParams planes_of(const AvgPoolParams& general, const View& in, const View& out) {
  return {{},
          plane_windows(general.windows),
          plane_array(in),
          plane_array(out),
          static_cast<int>(general.divisor.fixed),
          general.divisor.count_padding,
          general.in,
          general.out};
}

bool takes_planes(const AvgPoolParams& params, const View& in, const View& out) {
  const bool narrow = is_floating_point(in.dtype) && in.dtype != DType::float64;
  return narrow && params.divisor.fixed >= 0 && params.divisor.fixed < 1 << 30 &&
         are_small_squares(params.windows, {&in, &out});
}

AvgPoolParams params_of(std::string_view op, const View& in, const View& out, const Shape& sizes,
                        const AvgPoolAttrs& attrs) {
  AvgPoolParams params;
  params.windows = pool::windows_of(sizes, attrs);
  check_dims(op, params.windows, {&in, &out});
  params.divisor = attrs.divisor();
  params.in_strides = pool_strides(in);
  params.out_strides = pool_strides(out);
  params.in = in.data;
  params.out = out.data;
  return params;
}

template <class Body>
void visit_averaged(DType dtype, std::string_view op, Body&& body) {
  if (dtype == kInt64) return body.template operator()<long long, long long>();
  visit_floating(dtype, op, [&]<class T>() { body.template operator()<T, accumulate_t<T>>(); });
}

void avg_pool_kernel(const KernelContext& context, const AvgPoolAttrs& attrs) {
  const View in = pool::as_five_dims(context.input(0), attrs.dims());
  const View out = pool::as_five_dims(context.output(), attrs.dims());
  AvgPoolParams params = params_of(context.op, in, out, context.input(0).sizes, attrs);
  const Launch launch{context.op, context.device.index};
  if (takes_planes(params, in, out)) {
    AvgPlanesParams planes = planes_of(params, in, out);
    visit_floating(out.dtype, context.op, [&]<class T>() {
      if constexpr (sizeof(T) < 8) {
        constexpr int V = static_cast<int>(16 / sizeof(T));
        const int group = channels_per_thread({&in, &out});
        visit_kernel(planes.windows, [&]<int kKernel>() {
          each_box(out, group, [&](const PoolBox& box) {
            planes.box = box;
            if (group == 1)
              launch(avg_pool_planes<T, 1, kKernel>, blocks_for(box.count), dim3(kThreads), planes);
            else
              launch(avg_pool_planes<T, V, kKernel>, blocks_for(box.count), dim3(kThreads), planes);
          });
        });
      }
    });
    return;
  }
  const pool::WindowDim& width = params.windows.dims[2];
  const int64_t wide = width.adaptive ? width.in / std::max<int64_t>(width.out, 1) : width.kernel;
  const bool by_warp = wide >= 24 && in.strides[1] != 1;
  visit_averaged(in.dtype, context.op, [&]<class T, class C>() {
    constexpr int V = static_cast<int>(16 / sizeof(T));
    const int group = channels_per_thread({&in, &out});
    each_box(
        out, by_warp ? 1 : group,
        [&](const PoolBox& box) {
          params.box = box;
          if (by_warp)
            launch(avg_pool_windows<T, C>, blocks_for(box.count * 32), dim3(kThreads), params);
          else if (group == 1)
            launch(avg_pool_elements<T, C, 1>, blocks_for(box.count), dim3(kThreads), params);
          else
            launch(avg_pool_elements<T, C, V>, blocks_for(box.count), dim3(kThreads), params);
        },
        by_warp ? 1 << 25 : 1 << 30);
  });
}

void avg_pool_backward_kernel(const KernelContext& context, const AvgPoolBackwardAttrs& attrs) {
  const View grad = pool::as_five_dims(context.input(0), attrs.dims());
  const View out = pool::as_five_dims(context.output(), attrs.dims());
  AvgPoolParams params = params_of(context.op, grad, out, attrs.sizes, attrs);
  const Launch launch{context.op, context.device.index};
  if (takes_planes(params, grad, out)) {
    AvgPlanesParams planes = planes_of(params, grad, out);
    visit_floating(out.dtype, context.op, [&]<class T>() {
      if constexpr (sizeof(T) < 8) {
        constexpr int V = static_cast<int>(16 / sizeof(T));
        const int group = channels_per_thread({&grad, &out});
        visit_reach(planes.windows, [&]<int kReach>() {
          each_box(out, group, [&](const PoolBox& box) {
            planes.box = box;
            if (group == 1)
              launch(avg_pool_plane_gradients<T, 1, kReach>, blocks_for(box.count), dim3(kThreads),
                     planes);
            else
              launch(avg_pool_plane_gradients<T, V, kReach>, blocks_for(box.count), dim3(kThreads),
                     planes);
          });
        });
      }
    });
    return;
  }
  visit_averaged(out.dtype, context.op, [&]<class T, class C>() {
    constexpr int V = static_cast<int>(16 / sizeof(T));
    const int group = channels_per_thread({&grad, &out});
    each_box(out, group, [&](const PoolBox& box) {
      params.box = box;
      if (group == 1)
        launch(avg_pool_gradients<T, C, 1>, blocks_for(box.count), dim3(kThreads), params);
      else
        launch(avg_pool_gradients<T, C, V>, blocks_for(box.count), dim3(kThreads), params);
    });
  });
}

}  // namespace

void register_avg_pool_cuda() {
  avg_pool_op.set_kernel(DeviceType::cuda, avg_pool_kernel);
  avg_pool_backward_op.set_kernel(DeviceType::cuda, avg_pool_backward_kernel);
}

}  // namespace tensora::cuda

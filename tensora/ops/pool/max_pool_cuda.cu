#include "tensora/ops/pool/max_pool.h"

#include "tensora/ops/pool/pool_planes.cuh"

namespace tensora::cuda {
namespace {

struct MaxPoolParams {
  PoolBox box;
  pool::Windows windows;
  PoolStrides in_strides, out_strides, places_strides;
  const void* in;
  void* out;
  long long* places;  // null if they are not wanted
};

template <class C>
__device__ C lowest() {
  if constexpr (is_float_type<C>)
    return -static_cast<C>(INFINITY);
  else
    return static_cast<C>(-0x7fffffffffffffffll - 1);
}
// Larger, or NaN: of several NaN the last stays, as in PyTorch.
template <class C>
__device__ bool replaces(C value, C best) {
  return value > best || value != value;
}

template <class T, class C, int V>
__global__ void __launch_bounds__(kThreads)
    max_pool_elements(const __grid_constant__ MaxPoolParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.box.count) return;
  const Place at = params.box.place(i);
  const auto& dims = params.windows.dims;
  const int d_first = dims[0].first(at.d), d_end = dims[0].end(at.d);
  const int h_first = dims[1].first(at.h), h_end = dims[1].end(at.h);
  const int w_first = dims[2].first(at.w), w_end = dims[2].end(at.w);
  const int d_step = static_cast<int>(dims[0].dilation),
            h_step = static_cast<int>(dims[1].dilation);
  const int w_step = static_cast<int>(dims[2].dilation);
  const T* const from = static_cast<const T*>(params.in) + at.n * params.in_strides.of[0] +
                        at.c * params.in_strides.of[1];
  C best[V];
  long long chosen[V];
  const long long start = params.windows.first_place(at.d, at.h, at.w);
#pragma unroll
  for (int v = 0; v < V; ++v) best[v] = lowest<C>(), chosen[v] = start;
  for (int d = d_first; d < d_end; d += d_step)
    for (int h = h_first; h < h_end; h += h_step) {
      const T* const row = from + d * params.in_strides.of[2] + h * params.in_strides.of[3];
      const int64_t before = (d * dims[1].in + h) * dims[2].in;
      for (int w = w_first; w < w_end; w += w_step) {
        C value[V];
        load_channels<T, C, V>(row + w * params.in_strides.of[4], value);
#pragma unroll
        for (int v = 0; v < V; ++v)
          if (replaces(value[v], best[v])) best[v] = value[v], chosen[v] = before + w;
      }
    }
  store_channels<T, C, V>(static_cast<T*>(params.out) + params.out_strides.offset(at), best);
  if (params.places)
    store_channels<long long, long long, V>(params.places + params.places_strides.offset(at),
                                            chosen);
}

// Large windows: a warp for each output.
template <class T, class C>
__global__ void __launch_bounds__(kThreads)
    max_pool_windows(const __grid_constant__ MaxPoolParams params) {
  const unsigned i = (blockIdx.x * kThreads + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (i >= params.box.count) return;
  const Place at = params.box.place(i);
  const auto& dims = params.windows.dims;
  const int d_first = dims[0].first(at.d), h_first = dims[1].first(at.h);
  const int w_first = dims[2].first(at.w);
  const int d_end = dims[0].end(at.d), h_end = dims[1].end(at.h), w_end = dims[2].end(at.w);
  const int d_step = static_cast<int>(dims[0].dilation),
            h_step = static_cast<int>(dims[1].dilation);
  const int w_step = static_cast<int>(dims[2].dilation);
  const T* const from = static_cast<const T*>(params.in) + at.n * params.in_strides.of[0] +
                        at.c * params.in_strides.of[1];
  C best = lowest<C>();
  long long chosen = params.windows.first_place(at.d, at.h, at.w);
  for (int d = d_first; d < d_end; d += d_step)
    for (int h = h_first; h < h_end; h += h_step) {
      const T* const row = from + d * params.in_strides.of[2] + h * params.in_strides.of[3];
      const int64_t before = (d * dims[1].in + h) * dims[2].in;
      for (int w = w_first + static_cast<int>(lane) * w_step; w < w_end; w += 32 * w_step) {
        const C value = load_value<C>(row[w * params.in_strides.of[4]]);
        if (replaces(value, best)) best = value, chosen = before + w;
      }
    }
    // The lanes hold the first of their own largest elements, or their last NaN.
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const C value = __shfl_xor_sync(kWholeWarp, best, step);
    const long long place = __shfl_xor_sync(kWholeWarp, chosen, step);
    const bool nan = value != value, best_nan = best != best;
    const bool better = nan || best_nan ? nan && (!best_nan || place > chosen)
                                        : value > best || (value == best && place < chosen);
    if (better) best = value, chosen = place;
  }
  if (lane != 0) return;
  static_cast<T*>(params.out)[params.out_strides.offset(at)] = store_value<T>(best);
  if (params.places) params.places[params.places_strides.offset(at)] = chosen;
}

// See Note [Windows that the compiler can see].
struct MaxPlanesParams {
  PoolBox box;
  PlaneWindows windows;
  PlaneArray in_array, out_array, places_array;
  const void* in;
  void* out;
  long long* places;  // null if they are not wanted
};

template <class T, int V, int kKernel>
__global__ void __launch_bounds__(kThreads)
    max_pool_planes(const __grid_constant__ MaxPlanesParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.box.count) return;
  const Place at = params.box.place(i);
  const T* const from = static_cast<const T*>(params.in) + params.in_array.start(at);
  float best[V];
  int chosen[V];
  const int first = max(params.windows.h.start(at.h), 0) * params.windows.w.in +
                    max(params.windows.w.start(at.w), 0);
#pragma unroll
  for (int v = 0; v < V; ++v) best[v] = lowest<float>(), chosen[v] = first;
  each_in_window<kKernel>(params.windows, at.h, at.w, [&](int h, int w, bool inside) {
    float value[V];
#pragma unroll
    for (int v = 0; v < V; ++v) value[v] = lowest<float>();
    if (inside) load_channels<T, float, V>(from + params.in_array.offset(h, w), value);
    const int place = h * params.windows.w.in + w;
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (replaces(value[v], best[v])) best[v] = value[v], chosen[v] = place;
  });
  store_channels<T, float, V>(static_cast<T*>(params.out) + params.out_array.start(at) +
                                  params.out_array.offset(at.h, at.w),
                              best);
  if (!params.places) return;
  long long places[V];
#pragma unroll
  for (int v = 0; v < V; ++v) places[v] = chosen[v];
  store_channels<long long, long long, V>(
      params.places + params.places_array.start(at) + params.places_array.offset(at.h, at.w),
      places);
}

template <class Body>
void visit_pooled(DType dtype, Body&& body) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (sizeof(T) == 8 && is_float_type<T>)
      body.template operator()<T, double>();
    else if constexpr (is_float_type<T> || is_half_type<T>)
      body.template operator()<T, float>();
    else if constexpr (!is_bool_type<T>)
      body.template operator()<T, long long>();
  });
}

// The dtypes that are computed in float32.
template <class Body>
void visit_narrow(DType dtype, Body&& body) {
  if (dtype == DType::float32)
    body.template operator()<float>();
  else if (dtype == DType::bfloat16)
    body.template operator()<BFloat16>();
  else
    body.template operator()<Half>();
}
bool is_narrow(DType dtype) { return is_floating_point(dtype) && dtype != DType::float64; }

void pool_planes(const KernelContext& context, const MaxPoolParams& general, const View& in,
                 const View& out, const View& places) {
  MaxPlanesParams params{{},
                         plane_windows(general.windows),
                         plane_array(in),
                         plane_array(out),
                         plane_array(places),
                         general.in,
                         general.out,
                         general.places};
  const Launch launch{context.op, context.device.index};
  visit_narrow(in.dtype, [&]<class T>() {
    constexpr int V = static_cast<int>(16 / sizeof(T));
    const int group = channels_per_thread({&in, &out, &places});
    visit_kernel(params.windows, [&]<int kKernel>() {
      each_box(out, group, [&](const PoolBox& box) {
        params.box = box;
        if (group == 1)
          launch(max_pool_planes<T, 1, kKernel>, blocks_for(box.count), dim3(kThreads), params);
        else
          launch(max_pool_planes<T, V, kKernel>, blocks_for(box.count), dim3(kThreads), params);
      });
    });
  });
}

void max_pool_kernel(const KernelContext& context, const MaxPoolAttrs& attrs) {
  const int dims = attrs.dims();
  const View in = pool::as_five_dims(context.input(0), dims);
  const View out = pool::as_five_dims(context.output(0), dims);
  const View places = pool::as_five_dims(context.output(attrs.return_indices ? 1 : 0), dims);
  MaxPoolParams params;
  params.windows = pool::windows_of(context.input(0).sizes, attrs);
  check_dims(context.op, params.windows, {&in, &out});
  params.in_strides = pool_strides(in);
  params.out_strides = pool_strides(out);
  params.places_strides = pool_strides(places);
  params.in = in.data;
  params.out = out.data;
  params.places = attrs.return_indices ? places.as<long long>() : nullptr;
  if (is_narrow(in.dtype) && are_small_squares(params.windows, {&in, &out, &places}))
    return pool_planes(context, params, in, out, places);
  const Launch launch{context.op, context.device.index};
  const pool::WindowDim& width = params.windows.dims[2];
  const int64_t wide = width.adaptive ? width.in / std::max<int64_t>(width.out, 1) : width.kernel;
  const bool by_warp = wide >= 24 && in.strides[1] != 1;
  visit_pooled(in.dtype, [&]<class T, class C>() {
    constexpr int V = is_float_type<C> ? static_cast<int>(16 / sizeof(T)) : 1;
    const int group = V == 1 ? 1 : channels_per_thread({&in, &out, &places});
    each_box(
        out, by_warp ? 1 : group,
        [&](const PoolBox& box) {
          params.box = box;
          if (by_warp)
            launch(max_pool_windows<T, C>, blocks_for(box.count * 32), dim3(kThreads), params);
          else if (group == 1)
            launch(max_pool_elements<T, C, 1>, blocks_for(box.count), dim3(kThreads), params);
          else if constexpr (V > 1)
            launch(max_pool_elements<T, C, V>, blocks_for(box.count), dim3(kThreads), params);
        },
        by_warp ? 1 << 25 : 1 << 30);
  });
}

// ---- backward --------------------------------------------------------------------------------

struct MaxPoolBackwardParams {
  PoolBox box;
  pool::Windows windows;
  PoolStrides grad_strides, places_strides, out_strides;
  const void* grad;
  const long long* places;
  void* out;
};

// Each thread collects from the windows that contain its position: no atomics, a fixed order.
template <class T, class C, int V>
__global__ void __launch_bounds__(kThreads)
    max_pool_gradients(const __grid_constant__ MaxPoolBackwardParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.box.count) return;
  const Place at = params.box.place(i);
  const auto& dims = params.windows.dims;
  const int d_first = dims[0].first_window(at.d), d_end = dims[0].end_window(at.d);
  const int h_first = dims[1].first_window(at.h), h_end = dims[1].end_window(at.h);
  const int w_first = dims[2].first_window(at.w), w_end = dims[2].end_window(at.w);
  const long long place = (at.d * dims[1].in + at.h) * dims[2].in + at.w;
  C sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = 0;
  for (int d = d_first; d < d_end; ++d)
    for (int h = h_first; h < h_end; ++h)
      for (int w = w_first; w < w_end; ++w) {
        long long chosen[V];
        load_channels<long long, long long, V>(
            params.places + params.places_strides.offset(at.n, at.c, d, h, w), chosen);
        bool any = false;
#pragma unroll
        for (int v = 0; v < V; ++v) any |= chosen[v] == place;
        if (!any) continue;
        C grad[V];
        load_channels<T, C, V>(
            static_cast<const T*>(params.grad) + params.grad_strides.offset(at.n, at.c, d, h, w),
            grad);
#pragma unroll
        for (int v = 0; v < V; ++v)
          if (chosen[v] == place) sum[v] += grad[v];
      }
  store_channels<T, C, V>(static_cast<T*>(params.out) + params.out_strides.offset(at), sum);
}

struct MaxPlanesBackwardParams {
  PoolBox box;
  PlaneWindows windows;
  PlaneArray grad_array, places_array, out_array;
  const void* grad;
  const long long* places;
  void* out;
};

template <class T, int V, int kReach>
__global__ void __launch_bounds__(kThreads)
    max_pool_plane_gradients(const __grid_constant__ MaxPlanesBackwardParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.box.count) return;
  const Place at = params.box.place(i);
  const int place = at.h * params.windows.w.in + at.w;
  const T* const grads = static_cast<const T*>(params.grad) + params.grad_array.start(at);
  const long long* const places = params.places + params.places_array.start(at);
  float sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = 0;
  each_window_around<kReach>(params.windows, at.h, at.w, [&](int h, int w, bool contains) {
    if (!contains) return;
    long long chosen[V];
    float grad[V];
    load_channels<long long, long long, V>(places + params.places_array.offset(h, w), chosen);
    load_channels<T, float, V>(grads + params.grad_array.offset(h, w), grad);
#pragma unroll
    for (int v = 0; v < V; ++v) sum[v] += chosen[v] == place ? grad[v] : 0.0f;
  });
  store_channels<T, float, V>(static_cast<T*>(params.out) + params.out_array.start(at) +
                                  params.out_array.offset(at.h, at.w),
                              sum);
}

void plane_gradients(const KernelContext& context, const MaxPoolBackwardParams& general,
                     const View& grad, const View& places, const View& out) {
  MaxPlanesBackwardParams params{{},
                                 plane_windows(general.windows),
                                 plane_array(grad),
                                 plane_array(places),
                                 plane_array(out),
                                 general.grad,
                                 general.places,
                                 general.out};
  const Launch launch{context.op, context.device.index};
  visit_narrow(out.dtype, [&]<class T>() {
    constexpr int V = static_cast<int>(16 / sizeof(T));
    const int group = channels_per_thread({&grad, &places, &out});
    visit_reach(params.windows, [&]<int kReach>() {
      each_box(out, group, [&](const PoolBox& box) {
        params.box = box;
        if (group == 1)
          launch(max_pool_plane_gradients<T, 1, kReach>, blocks_for(box.count), dim3(kThreads),
                 params);
        else
          launch(max_pool_plane_gradients<T, V, kReach>, blocks_for(box.count), dim3(kThreads),
                 params);
      });
    });
  });
}

void max_pool_backward_kernel(const KernelContext& context, const MaxPoolBackwardAttrs& attrs) {
  const int dims = attrs.dims();
  const View grad = pool::as_five_dims(context.input(0), dims);
  const View places = pool::as_five_dims(context.input(1), dims);
  const View out = pool::as_five_dims(context.output(), dims);
  MaxPoolBackwardParams params;
  params.windows = pool::windows_of(attrs.sizes, attrs);
  check_dims(context.op, params.windows, {&grad, &out});
  params.grad_strides = pool_strides(grad);
  params.places_strides = pool_strides(places);
  params.out_strides = pool_strides(out);
  params.grad = grad.data;
  params.places = places.as<const long long>();
  params.out = out.data;
  if (is_narrow(out.dtype) && are_small_squares(params.windows, {&grad, &places, &out}))
    return plane_gradients(context, params, grad, places, out);
  const Launch launch{context.op, context.device.index};
  visit_floating(out.dtype, context.op, [&]<class T>() {
    using C = accumulate_t<T>;
    constexpr int V = static_cast<int>(16 / sizeof(T));
    const int group = channels_per_thread({&grad, &places, &out});
    each_box(out, group, [&](const PoolBox& box) {
      params.box = box;
      if (group == 1)
        launch(max_pool_gradients<T, C, 1>, blocks_for(box.count), dim3(kThreads), params);
      else
        launch(max_pool_gradients<T, C, V>, blocks_for(box.count), dim3(kThreads), params);
    });
  });
}

}  // namespace

void register_max_pool_cuda() {
  max_pool_op.set_kernel(DeviceType::cuda, max_pool_kernel);
  max_pool_backward_op.set_kernel(DeviceType::cuda, max_pool_backward_kernel);
}

}  // namespace tensora::cuda

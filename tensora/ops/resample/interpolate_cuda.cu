#include "tensora/ops/resample/interpolate.h"

#include "tensora/ops/resample/bands.h"

#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/ops/pool/pool_cuda.cuh"

namespace tensora::cuda {
namespace {

using resample::BandDim;

// Ranges and weights of one dim, computed once for all elements.
template <class C>
struct Bands {
  int64_t *first, *end;  // of the inputs of an output; transposed, of the outputs of an input
  C* weights;            // `width` for each output
  int64_t* starts;       // transposed: the first input of each output
  int64_t width;
};
template <class C>
struct BandTables {
  BandDim dims[3];
  Bands<C> bands[3];
  bool transposed;
};

// The first output whose range begins behind input i, or ends behind it.
__device__ int64_t first_output(const BandDim& dim, int64_t i, bool by_end) {
  int64_t low = 0, high = dim.out;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    int64_t first, end;
    dim.range(middle, first, end);
    if ((by_end ? end : first) > i)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

template <class C>
__global__ void __launch_bounds__(kThreads)
    fill_bands(const __grid_constant__ BandTables<C> tables) {
  const BandDim dim = tables.dims[blockIdx.y];
  const Bands<C> bands = tables.bands[blockIdx.y];
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < dim.out) {
    int64_t first, end;
    dim.range(i, first, end);
    dim.weights(i, bands.weights + i * bands.width);
    (tables.transposed ? bands.starts : bands.first)[i] = first;
    if (!tables.transposed) bands.end[i] = end;
  }
  if (tables.transposed && i < dim.in) {
    bands.first[i] = first_output(dim, i, true);
    bands.end[i] = first_output(dim, i, false);
  }
}

template <class C>
struct ResizeParams {
  PoolBox box;
  Bands<C> bands[3];
  PoolStrides in_strides, out_strides;
  const void* in;
  void* out;
};

// The weight of element `from` for the result at `at`.
template <bool transposed, class C>
__device__ C weight_of(const Bands<C>& bands, int64_t at, int64_t first, int64_t from) {
  if constexpr (transposed)
    return bands.weights[from * bands.width + at - bands.starts[from]];
  else
    return bands.weights[at * bands.width + from - first];
}

// V channels: side by side, or, for V > 1 where they are not, `strided`. What a thread finds out
// about its position then serves several elements.
template <class T, class C, int V, bool strided>
__device__ void load_group(const T* from, int64_t stride, C (&to)[V]) {
  if constexpr (strided) {
#pragma unroll
    for (int v = 0; v < V; ++v) to[v] = load_value<C>(from[v * stride]);
  } else {
    load_channels<T, C, V>(from, to);
  }
}

template <class T, class C, int V, bool strided, bool transposed>
__global__ void __launch_bounds__(kThreads)
    resize_elements(const __grid_constant__ ResizeParams<C> params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.box.count) return;
  const Place at = params.box.place(i);
  const Bands<C>&depth = params.bands[0], &height = params.bands[1], &width = params.bands[2];
  const int64_t d_first = depth.first[at.d], d_end = depth.end[at.d];
  const int64_t h_first = height.first[at.h], h_end = height.end[at.h];
  const int64_t w_first = width.first[at.w], w_end = width.end[at.w];
  const T* const from = static_cast<const T*>(params.in) + at.n * params.in_strides.of[0] +
                        at.c * params.in_strides.of[1];
  C sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = 0;
  for (int64_t d = d_first; d < d_end; ++d) {
    const C by_depth = weight_of<transposed>(depth, at.d, d_first, d);
    for (int64_t h = h_first; h < h_end; ++h) {
      const C outer = by_depth * weight_of<transposed>(height, at.h, h_first, h);
      const T* const row = from + d * params.in_strides.of[2] + h * params.in_strides.of[3];
      for (int64_t w = w_first; w < w_end; ++w) {
        const C weight = outer * weight_of<transposed>(width, at.w, w_first, w);
        C value[V];
        load_group<T, C, V, strided>(row + w * params.in_strides.of[4], params.in_strides.of[1],
                                     value);
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] += weight * value[v];
      }
    }
  }
  T* const to = static_cast<T*>(params.out) + params.out_strides.offset(at);
  if constexpr (strided) {
#pragma unroll
    for (int v = 0; v < V; ++v) to[v * params.out_strides.of[1]] = store_value<T>(sum[v]);
  } else {
    store_channels<T, C, V>(to, sum);
  }
}

// Divides the scratch memory among the tables of all dims; returns the bytes that they need.
template <class C>
size_t place_tables(BandTables<C>& tables, char* memory) {
  size_t used = 0;
  const auto take = [&]<class E>(E*& to, int64_t count) {
    to = reinterpret_cast<E*>(memory + used);
    used += (static_cast<size_t>(count) * sizeof(E) + 15) / 16 * 16;
  };
  for (int k = 0; k < 3; ++k) {
    const BandDim& dim = tables.dims[k];
    Bands<C>& bands = tables.bands[k];
    bands.width = dim.width();
    take(bands.first, tables.transposed ? dim.in : dim.out);
    take(bands.end, tables.transposed ? dim.in : dim.out);
    take(bands.weights, dim.out * bands.width);
    take(bands.starts, tables.transposed ? dim.out : 0);
  }
  return used;
}

template <class T, class C, bool transposed>
void run(const KernelContext& context, const View& in, const View& out, const Shape& sizes,
         const ResizeAttrs& attrs) {
  if (out.numel == 0) return;
  BandTables<C> tables;
  const auto dims = resample::band_dims(sizes, attrs);
  int64_t longest = 0;
  for (int k = 0; k < 3; ++k) {
    tables.dims[k] = dims[static_cast<size_t>(k)];
    longest = std::max({longest, tables.dims[k].in, tables.dims[k].out});
  }
  tables.transposed = transposed;
  const Scratch scratch(context.device.index, place_tables(tables, nullptr));
  place_tables(tables, scratch.data());
  const Launch launch{context.op, context.device.index};
  launch(fill_bands<C>, dim3(static_cast<unsigned>((longest + kThreads - 1) / kThreads), 3),
         dim3(kThreads), tables);

  ResizeParams<C> params;
  for (int k = 0; k < 3; ++k) params.bands[k] = tables.bands[k];
  params.in_strides = pool_strides(in);
  params.out_strides = pool_strides(out);
  params.in = in.data;
  params.out = out.data;
  constexpr int V = static_cast<int>(16 / sizeof(T)), kStrided = 4;
  const int packed = channels_per_thread({&in, &out});
  const int group = packed > 1 ? packed : out.sizes[1] % kStrided == 0 ? kStrided : 1;
  each_box(out, group, [&](const PoolBox& box) {
    params.box = box;
    const auto start = [&](auto kernel) {
      launch(kernel, blocks_for(box.count), dim3(kThreads), params);
    };
    if (packed > 1)
      start(resize_elements<T, C, V, false, transposed>);
    else if (group > 1)
      start(resize_elements<T, C, kStrided, true, transposed>);
    else
      start(resize_elements<T, C, 1, false, transposed>);
  });
}

void resize_kernel(const KernelContext& context, const ResizeAttrs& attrs) {
  const View in = pool::as_five_dims(context.input(0), attrs.output_size.size());
  const View out = pool::as_five_dims(context.output(), attrs.output_size.size());
  const Shape& sizes = context.input(0).sizes;
  if (in.dtype == kUInt8) return run<uint8_t, float, false>(context, in, out, sizes, attrs);
  visit_floating(in.dtype, context.op, [&]<class T>() {
    run<T, accumulate_t<T>, false>(context, in, out, sizes, attrs);
  });
}

void resize_backward_kernel(const KernelContext& context, const ResizeBackwardAttrs& attrs) {
  const View grad = pool::as_five_dims(context.input(0), attrs.output_size.size());
  const View out = pool::as_five_dims(context.output(), attrs.output_size.size());
  visit_floating(out.dtype, context.op, [&]<class T>() {
    run<T, accumulate_t<T>, true>(context, grad, out, attrs.sizes, attrs);
  });
}

}  // namespace

void register_interpolate_cuda() {
  resize_op.set_kernel(DeviceType::cuda, resize_kernel);
  resize_backward_op.set_kernel(DeviceType::cuda, resize_backward_kernel);
}

}  // namespace tensora::cuda

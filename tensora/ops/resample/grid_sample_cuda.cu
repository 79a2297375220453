#include "tensora/ops/resample/grid_sample.h"
#include "tensora/ops/resample/grid_taps.h"

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/ops/pool/pool_cuda.cuh"

namespace tensora::cuda {
namespace {

using resample::AxisTaps, resample::GridAxis;

// One thread for each place of the grid; it visits all channels.
template <class C>
struct SampleParams {
  GridAxis<C> axes[3];
  PoolStrides input_strides, out_strides, grid_strides;  // grid: N d h w coordinate
  int64_t sizes[3];                                      // of the grid
  int64_t places, channels;                              // places: of all batch entries
  int dims;
  const void *input, *grid;
  void* out;  // in backward: the gradient of the result, which is read
  C* input_grad;
  void* grid_grad;
  PoolStrides input_grad_strides, grid_grad_strides;
};

template <class C>
struct PlaceOf {
  int64_t n, at[3];
  AxisTaps<C> axis[3];

  template <class T>
  __device__ void find(const SampleParams<C>& params, int64_t i, const T* grid) {
    at[2] = i % params.sizes[2];
    i /= params.sizes[2];
    at[1] = i % params.sizes[1];
    i /= params.sizes[1];
    at[0] = i % params.sizes[0];
    n = i / params.sizes[0];
    const T* const from = grid + params.grid_strides.offset(n, at[0], at[1], at[2], 0);
#pragma unroll
    for (int k = 0; k < 3; ++k)
      if (k >= 3 - params.dims)
        axis[k] = params.axes[k].taps(load_value<C>(from[(2 - k) * params.grid_strides.of[4]]));
  }
  // Calls body(offset, weight, slopes by x, y, z) for the taps inside of the input.
  template <class Body>
  __device__ void each_tap(const PoolStrides& strides, Body&& body) const {
    for (int a = 0; a < axis[0].count; ++a)
      for (int b = 0; b < axis[1].count; ++b)
        for (int c = 0; c < axis[2].count; ++c) {
          if (axis[0].index[a] < 0 || axis[1].index[b] < 0 || axis[2].index[c] < 0) continue;
          const C d = axis[0].weight[a], h = axis[1].weight[b], w = axis[2].weight[c];
          body(axis[0].index[a] * strides.of[2] + axis[1].index[b] * strides.of[3] +
                   axis[2].index[c] * strides.of[4],
               d * h * w, d * h * axis[2].slope[c], d * axis[1].slope[b] * w,
               axis[0].slope[a] * h * w);
        }
  }
};

// The channels of a place are divided among the blocks of grid dim y.
template <class T, class C>
__global__ void __launch_bounds__(kThreads)
    sample_places(const __grid_constant__ SampleParams<C> params) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < params.places;
       i += int64_t{gridDim.x} * kThreads) {
    PlaceOf<C> place;
    place.find(params, i, static_cast<const T*>(params.grid));
    const T* const input =
        static_cast<const T*>(params.input) + place.n * params.input_strides.of[0];
    T* const out = static_cast<T*>(params.out) +
                   params.out_strides.offset(place.n, 0, place.at[0], place.at[1], place.at[2]);
    for (int64_t c = blockIdx.y; c < params.channels; c += gridDim.y) {
      const T* const from = input + c * params.input_strides.of[1];
      C sum = 0;
      place.each_tap(params.input_strides, [&](int64_t offset, C weight, C, C, C) {
        sum += weight * load_value<C>(from[offset]);
      });
      out[c * params.out_strides.of[1]] = store_value<T>(sum);
    }
  }
}

template <class T, class C>
__global__ void __launch_bounds__(kThreads)
    sample_gradients(const __grid_constant__ SampleParams<C> params) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < params.places;
       i += int64_t{gridDim.x} * kThreads) {
    PlaceOf<C> place;
    place.find(params, i, static_cast<const T*>(params.grid));
    const T* const input =
        static_cast<const T*>(params.input) + place.n * params.input_strides.of[0];
    const T* const grad =
        static_cast<const T*>(params.out) +
        params.out_strides.offset(place.n, 0, place.at[0], place.at[1], place.at[2]);
    C* const to = params.input_grad + place.n * params.input_grad_strides.of[0];
    C sums[3] = {0, 0, 0};
    for (int64_t c = 0; c < params.channels; ++c) {
      const C value = load_value<C>(grad[c * params.out_strides.of[1]]);
      const T* const from = input + c * params.input_strides.of[1];
      C* const target = to + c * params.input_grad_strides.of[1];
      place.each_tap(params.input_grad_strides, [&](int64_t offset, C weight, C, C, C) {
        atomic_add(target + offset, weight * value);
      });
      place.each_tap(params.input_strides, [&](int64_t offset, C, C x, C y, C z) {
        const C part = value * load_value<C>(from[offset]);
        sums[0] += x * part;
        sums[1] += y * part;
        sums[2] += z * part;
      });
    }
    T* const result =
        static_cast<T*>(params.grid_grad) +
        params.grid_grad_strides.offset(place.n, place.at[0], place.at[1], place.at[2], 0);
#pragma unroll
    for (int k = 0; k < 3; ++k)
      if (k < params.dims) result[k * params.grid_grad_strides.of[4]] = store_value<T>(sums[k]);
  }
}

// N d h w coordinate, with a depth of 1 where there is none.
View grid_of_five(const View& grid) {
  View result = grid;
  if (grid.dim() == 4) {
    result.sizes.insert(1, 1);
    result.strides.insert(1, 0);
  }
  return result;
}

template <class C>
SampleParams<C> params_of(const View& input, const View& grid, const View& out,
                          const GridSampleAttrs& attrs) {
  SampleParams<C> params = {};
  for (int k = 0; k < 3; ++k) {
    params.axes[k] = {input.sizes[2 + k], attrs.mode, attrs.padding_mode, attrs.align_corners};
    params.sizes[k] = grid.sizes[1 + k];
  }
  params.input_strides = pool_strides(input);
  params.out_strides = pool_strides(out);
  params.grid_strides = pool_strides(grid);
  params.dims = static_cast<int>(grid.sizes[4]);
  params.places = grid.numel / params.dims;
  params.channels = input.sizes[1];
  params.input = input.data;
  params.grid = grid.data;
  params.out = out.data;
  return params;
}

constexpr int64_t kMostBlocks = 1 << 20;

dim3 blocks_of(int64_t places) {
  return dim3(static_cast<unsigned>(std::min(kMostBlocks, (places + kThreads - 1) / kThreads)));
}

void grid_sample_kernel(const KernelContext& context, const GridSampleAttrs& attrs) {
  const int dims = context.input(0).dim() - 2;
  const View input = pool::as_five_dims(context.input(0), dims);
  const View grid = grid_of_five(context.input(1));
  const View out = pool::as_five_dims(context.output(), dims);
  if (out.numel == 0) return;
  const Launch launch{context.op, context.device.index};
  visit_floating(out.dtype, context.op, [&]<class T>() {
    using C = accumulate_t<T>;
    const SampleParams<C> params = params_of<C>(input, grid, out, attrs);
    dim3 blocks = blocks_of(params.places);
    // Few places: their channels are divided too.
    while (blocks.x * blocks.y < 512 && blocks.y * 2 <= params.channels) blocks.y *= 2;
    launch(sample_places<T, C>, blocks, dim3(kThreads), params);
  });
}

// The gradient of the input is summed in the compute type, in scratch memory for half types.
template <class T>
void run_backward(const KernelContext& context, const GridSampleAttrs& attrs) {
  using C = accumulate_t<T>;
  const int dims = context.input(1).dim() - 2;
  const View grad = pool::as_five_dims(context.input(0), dims);
  const View input = pool::as_five_dims(context.input(1), dims);
  const View grid = grid_of_five(context.input(2));
  const View& input_grad = context.output(0);
  const View grid_grad = grid_of_five(context.output(1));
  const bool direct = input_grad.dtype == dtype_of<C>;
  const Scratch scratch(context.device.index,
                        direct ? 1 : static_cast<size_t>(input_grad.numel) * sizeof(C));
  View sums = input_grad;
  if (!direct) {
    sums.data = scratch.data();
    sums.dtype = dtype_of<C>;
  }
  if (sums.numel > 0) fill_elements(context.op, sums, 0);
  if (grid.numel > 0) {
    SampleParams<C> params = params_of<C>(input, grid, grad, attrs);
    params.input_grad = sums.as<C>();
    params.input_grad_strides = pool_strides(pool::as_five_dims(sums, dims));
    params.grid_grad = grid_grad.data;
    params.grid_grad_strides = pool_strides(grid_grad);
    const Launch launch{context.op, context.device.index};
    launch(sample_gradients<T, C>, blocks_of(params.places), dim3(kThreads), params);
  }
  if (!direct && sums.numel > 0) copy_elements(context.op, sums, input_grad);
}

void grid_sample_backward_kernel(const KernelContext& context, const GridSampleAttrs& attrs) {
  visit_floating(context.input(0).dtype, context.op,
                 [&]<class T>() { run_backward<T>(context, attrs); });
}

}  // namespace

void register_grid_sample_cuda() {
  grid_sample_op.set_kernel(DeviceType::cuda, grid_sample_kernel);
  grid_sample_backward_op.set_kernel(DeviceType::cuda, grid_sample_backward_kernel);
}

}  // namespace tensora::cuda

#include "tensora/ops/conv/im2col.h"

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/conv/im2col_geometry.h"

namespace tensora::cuda {
namespace {

struct BlockParams {
  const char* in;
  char* out;
  BlockAxis high, wide;
  int64_t channels;
  int64_t strides[4];  // of the input, in elements
  int64_t count;       // threads that have work
};

constexpr int64_t kMostGroups = 1 << 20;  // of threads; each does several elements beyond that

dim3 grid_of(int64_t count) {
  return dim3(static_cast<unsigned>(std::min(kMostGroups, (count + kThreads - 1) / kThreads)));
}

// A thread copies what one channel of one block holds; neighbours have neighbouring blocks, so that
// every element is written side by side.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_blocks(const __grid_constant__ BlockParams params) {
  const BlockAxis &high = params.high, &wide = params.wide;
  const int64_t blocks = high.blocks * wide.blocks;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < params.count;
       i += step) {
    const int64_t block = i % blocks, plane = i / blocks;
    const int64_t channel = plane % params.channels, image = plane / params.channels;
    const T* const from = reinterpret_cast<const T*>(params.in) + image * params.strides[0] +
                          channel * params.strides[1];
    T* to = reinterpret_cast<T*>(params.out) + plane * high.kernel * wide.kernel * blocks + block;
    const int64_t top = block / wide.blocks * high.stride - high.padding;
    const int64_t left = block % wide.blocks * wide.stride - wide.padding;
    for (int64_t h = 0; h < high.kernel; ++h) {
      const int64_t y = top + h * high.dilation;
      for (int64_t w = 0; w < wide.kernel; ++w, to += blocks) {
        const int64_t x = left + w * wide.dilation;
        const bool inside = y >= 0 && y < high.image && x >= 0 && x < wide.image;
        *to = inside ? from[y * params.strides[2] + x * params.strides[3]] : T{};
      }
    }
  }
}

// A thread adds up, in order, what all blocks hold of its pixel.
template <class T>
__global__ void __launch_bounds__(kThreads) add_blocks(const __grid_constant__ BlockParams params) {
  using C = accumulate_t<T>;
  const BlockAxis &high = params.high, &wide = params.wide;
  const int64_t pixels = high.image * wide.image, kernel = high.kernel * wide.kernel;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < params.count;
       i += step) {
    const int64_t pixel = i % pixels, plane = i / pixels;
    const int64_t y = pixel / wide.image + high.padding, x = pixel % wide.image + wide.padding;
    const T* const from = reinterpret_cast<const T*>(params.in) +
                          plane / params.channels * params.strides[0] +
                          plane % params.channels * kernel * params.strides[1];
    C sum(0);
    for (int64_t h = 0; h < high.kernel; ++h) {
      const int64_t up = y - h * high.dilation;
      const int64_t row = up / high.stride;
      if (up < 0 || row >= high.blocks || row * high.stride != up) continue;
      for (int64_t w = 0; w < wide.kernel; ++w) {
        const int64_t back = x - w * wide.dilation;
        const int64_t column = back / wide.stride;
        if (back < 0 || column >= wide.blocks || column * wide.stride != back) continue;
        sum += load_value<C>(from[(h * wide.kernel + w) * params.strides[1] +
                                  (row * wide.blocks + column) * params.strides[2]]);
      }
    }
    reinterpret_cast<T*>(params.out)[i] = store_value<T>(sum);
  }
}

BlockParams params_of(const View& in, const View& out, const BlockAxes& axes, int64_t channels,
                      int64_t count) {
  BlockParams params{};
  params.in = in.as<const char>();
  params.out = out.as<char>();
  params.high = axes[0];
  params.wide = axes[1];
  params.channels = channels;
  for (int d = 0; d < in.dim(); ++d) params.strides[d] = in.strides[d];
  params.count = count;
  return params;
}

void im2col_kernel(const KernelContext& context, const Im2colAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  if (out.numel == 0) return;
  const BlockAxes axes = block_axes({in.sizes[2], in.sizes[3]}, attrs);
  const int64_t count = in.sizes[0] * in.sizes[1] * axes[0].blocks * axes[1].blocks;
  const BlockParams params = params_of(in, out, axes, in.sizes[1], count);
  visit_element_size(out.dtype, [&]<class T>() {
    Launch{context.op, context.device.index}(gather_blocks<T>, grid_of(count), dim3(kThreads),
                                             params);
  });
}

void col2im_kernel(const KernelContext& context, const Col2imAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  if (out.numel == 0) return;
  const BlockAxes axes =
      block_axes({out.sizes[2], out.sizes[3]},
                 {attrs.kernel_size, attrs.dilation, attrs.padding, attrs.stride});
  const BlockParams params = params_of(in, out, axes, out.sizes[1], out.numel);
  visit_computing(out.dtype, [&]<class T>() {
    if constexpr (!std::is_integral_v<T>)
      Launch{context.op, context.device.index}(add_blocks<T>, grid_of(out.numel), dim3(kThreads),
                                               params);
  });
}

}  // namespace

void register_im2col_cuda() {
  im2col_op.set_kernel(DeviceType::cuda, im2col_kernel);
  col2im_op.set_kernel(DeviceType::cuda, col2im_kernel);
}

}  // namespace tensora::cuda

#include "tensora/ops/conv/convolution.h"

#include "tensora/backend/cuda/cudnn/convolution.h"
#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/loops/host_walk.h"
#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/conv/convolution_geometry.h"

namespace tensora::cuda {
namespace {

using cudnn::ConvolutionPass;

// ---- bias --------------------------------------------------------------------------------------

struct BiasParams {
  char* out;
  const char* bias;
  int64_t bias_step;  // in elements
  unsigned groups;    // packs of V elements
  Divisor channels;   // in packs if they are innermost
  Divisor inner;      // packs that one channel has in a row; else 1
};

Divisor make_divisor(int64_t divisor) {
  const DivisorNumbers numbers = divisor_numbers(divisor);
  return {numbers.divisor, numbers.multiplier, numbers.shift};
}

// V elements that lie side by side: of one channel, or of V channels.
template <class T, int V, bool kLast>
__global__ void __launch_bounds__(kThreads) add_bias(const __grid_constant__ BiasParams params) {
  using C = accumulate_t<T>;
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.groups) return;
  char* const place = params.out + static_cast<int64_t>(i) * static_cast<int64_t>(sizeof(T)) * V;
  const T* const bias = reinterpret_cast<const T*>(params.bias);
  const unsigned outer = params.inner.divide(i);
  const unsigned at = outer - params.channels.divide(outer) * params.channels.divisor;
  C values[V];
  load_pack<T>(place, values);
  if constexpr (kLast) {
#pragma unroll
    for (int v = 0; v < V; ++v)
      values[v] += load_value<C>(bias[(static_cast<int64_t>(at) * V + v) * params.bias_step]);
  } else {
    const C value = load_value<C>(bias[at * params.bias_step]);
#pragma unroll
    for (int v = 0; v < V; ++v) values[v] += value;
  }
  store_pack<T>(place, values);
}

template <class T, int V>
void launch_bias(const KernelContext& context, const View& out, const View& bias, bool last) {
  const int64_t batch = out.sizes[0], channels = out.sizes[1];
  const int64_t image = out.numel / batch / V;  // packs
  constexpr int64_t kMost = (int64_t{1} << 31) - kThreads;
  const int64_t at_once = std::max<int64_t>(1, kMost / image);
  check(image <= kMost, context.op, ": an image of ", out.numel / batch, " elements is too large");
  BiasParams params{};
  params.bias = bias.as<const char>();
  params.bias_step = bias.strides[0];
  params.channels = make_divisor(last ? channels / V : channels);
  params.inner = make_divisor(last ? 1 : image / channels);
  const Launch launch{context.op, context.device.index};
  for (int64_t first = 0; first < batch; first += at_once) {
    params.out = out.as<char>() + first * image * V * static_cast<int64_t>(sizeof(T));
    params.groups = static_cast<unsigned>(std::min(at_once, batch - first) * image);
    const dim3 grid((params.groups + kThreads - 1) / kThreads);
    if (last)
      launch(add_bias<T, V, true>, grid, dim3(kThreads), params);
    else
      launch(add_bias<T, V, false>, grid, dim3(kThreads), params);
  }
}

// out += bias; out is dense, contiguous or channels-last.
void add_bias_to(const KernelContext& context, const View& out, const View& bias) {
  const bool last = !out.contiguous;
  const int64_t run = last ? out.sizes[1] : out.numel / out.sizes[0] / out.sizes[1];
  visit_floating(out.dtype, context.op, [&]<class T>() {
    constexpr int kWide = 16 / static_cast<int>(sizeof(T));
    if (run % kWide == 0 && reinterpret_cast<uintptr_t>(out.data) % 16 == 0)
      launch_bias<T, kWide>(context, out, bias, last);
    else
      launch_bias<T, 1>(context, out, bias, last);
  });
}

// ---- kernels of one element --------------------------------------------------------------------

// Such a convolution of channels-last images is a product of matrices. cuDNN's engines for full
// float32 are made for larger kernels; those for 16 bits are as fast as the product, but for the
// weight's gradient, which took them up to 1.5 times as long where it was measured.
bool is_product(const View& large, const View& weight, const View& small,
                const ConvolutionAttrs& attrs) {
  bool plain = weight.sizes[1] == large.sizes[1] && weight.strides[1] == 1 &&
               weight.strides[0] == weight.sizes[1];
  for (const View* images : {&large, &small})
    plain = plain && images->strides == channels_last_strides(images->sizes);
  for (int d = 0; d < attrs.stride.size(); ++d)
    plain = plain && weight.sizes[2 + d] == 1 && attrs.stride[d] == 1 && attrs.padding[d] == 0;
  return plain;
}

// The channels of every pixel make a row.
MatrixBatch pixels(const View& images) { return {images.data, 0, images.sizes[1], 1}; }

MatrixBatch transposed(const MatrixBatch& matrix) {
  return {matrix.data, matrix.batch_stride, matrix.col_stride, matrix.row_stride};
}

void multiply(const KernelContext& context, ConvolutionPass pass, const View& large,
              const View& weight, const View& small) {
  const int64_t count = large.numel / large.sizes[1];
  const MatrixBatch x = pixels(large), y = pixels(small),
                    w{weight.data, 0, weight.strides[0], weight.strides[1]};
  Matmul product{.op = context.op, .device = context.device.index, .dtype = weight.dtype};
  switch (pass) {
    case ConvolutionPass::forward:
      product.m = count, product.n = weight.sizes[0], product.k = weight.sizes[1];
      product.a = x, product.b = transposed(w), product.out = y;
      break;
    case ConvolutionPass::backward_data:
      product.m = count, product.n = weight.sizes[1], product.k = weight.sizes[0];
      product.a = y, product.b = w, product.out = x;
      break;
    case ConvolutionPass::backward_filter:
      product.m = weight.sizes[0], product.n = weight.sizes[1], product.k = count;
      product.a = transposed(y), product.b = x, product.out = w;
      break;
  }
  blas_matmul(product);
}

// ---- ops ---------------------------------------------------------------------------------------

void convolve(const KernelContext& context, ConvolutionPass pass, const View& large,
              const View& weight, const View& small, const ConvolutionAttrs& attrs) {
  const View& out = context.output();
  if (out.numel == 0) return;
  const View* const arrays[] = {&large, &weight, &small};
  bool channels_last = false;
  for (const View* array : arrays) {
    if (array->numel == 0) return fill_elements(context.op, out, 0);
    channels_last |= is_channels_last(array->sizes, array->strides);
  }
  if (is_product(large, weight, small, attrs)) return multiply(context, pass, large, weight, small);
  cudnn::convolve({.op = context.op,
                   .device = context.device.index,
                   .pass = pass,
                   .x = large,
                   .w = weight,
                   .y = small,
                   .stride = attrs.stride,
                   .padding = attrs.padding,
                   .dilation = attrs.dilation,
                   .channels_last = channels_last});
}

void convolution_kernel(const KernelContext& context, const ConvolutionAttrs& given) {
  const View &input = context.input(0), &weight = context.input(1), &out = context.output();
  const ConvolutionAttrs attrs = expanded(given, input.dim() - 2);
  if (attrs.transposed)
    convolve(context, ConvolutionPass::backward_data, out, weight, input, attrs);
  else
    convolve(context, ConvolutionPass::forward, input, weight, out, attrs);
  const View* const bias = context.in.size() > 2 ? context.in[2] : nullptr;
  if (bias && out.numel > 0) add_bias_to(context, out, *bias);
}

void input_grad_kernel(const KernelContext& context, const ConvolutionGradAttrs& given) {
  const View &grad = context.input(0), &weight = context.input(1), &out = context.output();
  const ConvolutionAttrs attrs = expanded(given, grad.dim() - 2);
  if (attrs.transposed)
    convolve(context, ConvolutionPass::forward, grad, weight, out, attrs);
  else
    convolve(context, ConvolutionPass::backward_data, out, weight, grad, attrs);
}

void weight_grad_kernel(const KernelContext& context, const ConvolutionGradAttrs& given) {
  const View &grad = context.input(0), &input = context.input(1), &out = context.output();
  const ConvolutionAttrs attrs = expanded(given, grad.dim() - 2);
  convolve(context, ConvolutionPass::backward_filter, attrs.transposed ? grad : input, out,
           attrs.transposed ? input : grad, attrs);
}

}  // namespace

void register_convolution_cuda() {
  convolution_op.set_kernel(DeviceType::cuda, convolution_kernel);
  convolution_input_grad_op.set_kernel(DeviceType::cuda, input_grad_kernel);
  convolution_weight_grad_op.set_kernel(DeviceType::cuda, weight_grad_kernel);
}

}  // namespace tensora::cuda

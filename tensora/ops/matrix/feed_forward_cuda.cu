#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/loops/packed.h"
#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/matrix/feed_forward_op.h"
#include "tensora/ops/matrix/readable_matrix.h"
#include "tensora/ops/pointwise/smooth_activations.h"

namespace tensora::cuda {
namespace {

// Where the library has no kernel that does it along with the product.
template <class T>
__global__ void __launch_bounds__(kThreads)
    multiply_by_slope(T* product, const T* argument, int64_t count) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * kThreads) {
    functors::Saved<C> saved{};
    saved.g = load_value<C>(product[i]);
    saved.a = load_value<C>(argument[i]);
    product[i] = store_value<T>(functors::GeluTanh{}.vjp_a(saved));
  }
}

void gelu_gradient_kernel(const KernelContext& context, const NoAttrs&) {
  const View &grad = context.input(0), &weight = context.input(1), &out = context.output();
  if (out.numel == 0) return;
  const int device = context.device.index;
  if (grad.sizes[1] == 0) return fill_elements(context.op, out, 0);
  const Packed argument(context.op, device, context.input(2));
  const ReadableMatrix g(context, grad), w(context, weight);
  Matmul product{.op = context.op,
                 .device = device,
                 .dtype = out.dtype,
                 .m = out.sizes[0],
                 .n = out.sizes[1],
                 .k = grad.sizes[1],
                 .a = g.matrix(),
                 .b = w.matrix(),
                 .out = {out.data, 0, out.sizes[1], 1}};
  const bool fits = out.dtype != DType::float64 && out.sizes[1] % 8 == 0 &&
                    reinterpret_cast<uintptr_t>(argument.view().data) % 16 == 0;
  if (fits) {
    product.epilogue = {.function = Epilogue::Function::gelu_gradient,
                        .aux = argument.view().data,
                        .aux_stride = out.sizes[1]};
    if (blas_matmul(product)) return;
    product.epilogue = {};
  }
  blas_matmul(product);
  const int64_t blocks = std::min<int64_t>((out.numel + kThreads - 1) / kThreads, 1 << 16);
  visit_floating(out.dtype, context.op, [&]<class T>() {
    Launch{context.op, device}(multiply_by_slope<T>, dim3(static_cast<unsigned>(blocks)),
                               dim3(kThreads), out.as<T>(), argument.view().as<const T>(),
                               out.numel);
  });
}

}  // namespace

void register_feed_forward_cuda() {
  gelu_gradient_product_op.set_kernel(DeviceType::cuda, gelu_gradient_kernel);
}

}  // namespace tensora::cuda

#include <optional>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/matrix/linear_activation_values.h"
#include "tensora/ops/matrix/readable_matrix.h"

namespace tensora::cuda {
namespace {

// Bias and activation in one pass over a contiguous product. A thread has V adjacent elements of a
// row; `kept`, if not null, gets the argument.
template <class T, class C, int V>
__global__ void __launch_bounds__(kThreads)
    finish_product(Activation activation, T* out, T* kept, const T* bias, int64_t bias_stride,
                   int64_t cols, int64_t groups) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < groups;
       i += int64_t{gridDim.x} * kThreads) {
    C values[V];
    load_pack<T>(reinterpret_cast<const char*>(out + i * V), values);
    if (bias) {
      const int64_t col = i * V % cols;
#pragma unroll
      for (int k = 0; k < V; ++k) values[k] += load_value<C>(bias[(col + k) * bias_stride]);
    }
    if (kept) store_pack<T>(reinterpret_cast<char*>(kept + i * V), values);
    visit_activation(activation, [&](const auto& functor) {
#pragma unroll
      for (int k = 0; k < V; ++k) values[k] = functor.forward(values[k]);
    });
    store_pack<T>(reinterpret_cast<char*>(out + i * V), values);
  }
}

template <class T, int V>
void finish(const KernelContext& context, const View& out, const View* bias, const View* kept,
            Activation activation) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const int64_t groups = out.numel / V;
  const int64_t blocks = std::min<int64_t>((groups + kThreads - 1) / kThreads, 1 << 16);
  Launch{context.op, context.device.index}(
      finish_product<T, C, V>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), activation,
      out.as<T>(), kept ? kept->as<T>() : nullptr, bias ? bias->as<const T>() : nullptr,
      bias ? bias->strides[0] : 0, out.sizes[1], groups);
}

constexpr int64_t kAlignment = 16;

bool is_row(const View& bias) {
  return bias.strides[0] == 1 && reinterpret_cast<uintptr_t>(bias.data) % kAlignment == 0;
}

// The library's epilogue for this activation, if it has one: relu, and gelu in its tanh form.
std::optional<Epilogue> epilogue_for(const View& out, const View* bias, const View* kept,
                                     Activation activation) {
  if (out.dtype == DType::float64 || (bias && !is_row(*bias))) return {};
  Epilogue epilogue;
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      epilogue.function = Epilogue::Function::relu;
      break;
    case Activation::gelu_tanh:
      epilogue.function = Epilogue::Function::gelu;
      break;
    default:
      return {};
  }
  if (bias) epilogue.bias = bias->data;
  if (kept) {
    if (activation != Activation::gelu_tanh || out.sizes[1] % 8 != 0) return {};
    epilogue.aux = kept->data;
    epilogue.aux_stride = out.sizes[1];
  }
  return epilogue;
}

void linear_kernel(const KernelContext& context, const LinearActivationAttrs& attrs) {
  const View &x = context.input(0), &weight = context.input(1), &out = context.output(0);
  if (out.numel == 0) return;
  const View* const bias = context.in.size() > 2 ? context.in[2] : nullptr;
  const View* const kept = attrs.keep_argument ? &context.output(1) : nullptr;
  if (x.sizes[1] == 0) {
    fill_elements(context.op, out, 0);
  } else {
    const ReadableMatrix a(context, x), b(context, weight);
    Matmul product{.op = context.op,
                   .device = context.device.index,
                   .dtype = out.dtype,
                   .m = out.sizes[0],
                   .n = out.sizes[1],
                   .k = x.sizes[1],
                   .a = a.matrix(),
                   .b = b.turned(),
                   .out = {out.data, 0, out.sizes[1], 1}};
    if (const auto epilogue = epilogue_for(out, bias, kept, attrs.activation)) {
      product.epilogue = *epilogue;
      if (blas_matmul(product)) return;
      product.epilogue = {};
    }
    blas_matmul(product);
  }
  if (!bias && !kept && attrs.activation == Activation::none) return;
  visit_floating(out.dtype, context.op, [&]<class T>() {
    constexpr int kGroup = 16 / sizeof(T);
    const bool aligned = out.sizes[1] % kGroup == 0 &&
                         reinterpret_cast<uintptr_t>(out.data) % kAlignment == 0 &&
                         (!kept || reinterpret_cast<uintptr_t>(kept->data) % kAlignment == 0);
    if (aligned)
      finish<T, kGroup>(context, out, bias, kept, attrs.activation);
    else
      finish<T, 1>(context, out, bias, kept, attrs.activation);
  });
}

}  // namespace

void register_linear_activation_cuda() {
  linear_activation_op.set_kernel(DeviceType::cuda, linear_kernel);
}

}  // namespace tensora::cuda

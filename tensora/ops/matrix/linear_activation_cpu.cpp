#include <algorithm>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/gemm.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/matrix/linear_activation_values.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kTile = 1024;

template <class C, class F>
void add_and_activate(const F& functor, int64_t n, const C* bias, C* values, C* result) {
  if (bias) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) values[i] += bias[i];
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) result[i] = functor.forward(values[i]);
}

// One pass over the product: bias and activation. `kept`, if not null, gets the argument.
template <class C>
void finish(const View& out, const View* bias, const View* kept, Activation activation) {
  const int64_t rows = out.sizes[0], cols = out.sizes[1];
  std::vector<C> wide_bias(static_cast<size_t>(bias ? cols : 0));
  if (bias) load_fn<C>(bias->dtype)(bias->data, bias->strides[0], cols, wide_bias.data());
  const LoadFn load = load_fn<C>(out.dtype);
  const StoreFn store = store_fn<C>(out.dtype);
  const auto bytes = static_cast<int64_t>(element_size(out.dtype));
  const auto at = [&](const View& view, int64_t row, int64_t col) {
    return view.as<char>() + (row * view.strides[0] + col * view.strides[1]) * bytes;
  };
  visit_activation(activation, [&](const auto& functor) {
    parallel_for(rows, std::max<int64_t>(1, 8 * kTile / std::max<int64_t>(cols, 1)),
                 [&](int64_t begin, int64_t end) {
                   C values[kTile], result[kTile];
                   for (int64_t row = begin; row < end; ++row)
                     for (int64_t col = 0; col < cols; col += kTile) {
                       const int64_t n = std::min(kTile, cols - col);
                       load(at(out, row, col), out.strides[1], n, values);
                       add_and_activate(functor, n, bias ? wide_bias.data() + col : nullptr, values,
                                        result);
                       if (kept) store(values, at(*kept, row, col), kept->strides[1], n);
                       store(result, at(out, row, col), out.strides[1], n);
                     }
                 });
  });
}

void linear_kernel(const KernelContext& context, const LinearActivationAttrs& attrs) {
  const View &x = context.input(0), &weight = context.input(1), &out = context.output(0);
  if (out.numel == 0) return;
  const View* const bias = context.in.size() > 2 ? context.in[2] : nullptr;
  visit_floating(out.dtype, context.op, [&]<class T>() {
    gemm(Gemm<T>{.m = out.sizes[0],
                 .n = out.sizes[1],
                 .k = x.sizes[1],
                 .a = {x.as<const T>(), 0, x.strides[0], x.strides[1]},
                 .b = {weight.as<const T>(), 0, weight.strides[1], weight.strides[0]},
                 .out = {out.as<T>(), 0, out.strides[0], out.strides[1]}});
  });
  const View* const kept = attrs.keep_argument ? &context.output(1) : nullptr;
  if (!bias && !kept && attrs.activation == Activation::none) return;
  if (out.dtype == DType::float64)
    finish<double>(out, bias, kept, attrs.activation);
  else
    finish<float>(out, bias, kept, attrs.activation);
}

}  // namespace

void register_linear_activation_cpu() {
  linear_activation_op.set_kernel(DeviceType::cpu, linear_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA

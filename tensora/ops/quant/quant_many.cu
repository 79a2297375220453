#include <algorithm>
#include <type_traits>

#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/quant/quant_results.cuh"

// Note [Many rows times quantized weights]
// From some number of rows on the product is bound by the tensor cores, and unpacking a weight to
// 16-bit numbers, once per call, is a small part of it. The library multiplies these; it also adds
// a residual of the result's dtype, and leaves a float32 result unrounded. What it cannot do
// (a bias of another dtype, gates) is done by a pass over the result. Weights that lie one below
// the other are multiplied as one: a projection of few columns does not fill the GPU.

namespace tensora::cuda {
namespace {

// Adds bias and residual to the columns of one weight.
__global__ void __launch_bounds__(kThreads)
    finish_rows(const __grid_constant__ RowsCall call, int first, int width, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / width, column = first + i % width, at = row * call.columns + column;
  float value = any_number(call.out, call.out_dtype, at);
  if (call.bias) value += any_number(call.bias, call.bias_dtype, column);
  if (call.residual) value += any_number(call.residual, call.residual_dtype, at);
  store_number(call.out, call.out_dtype, at, value);
}

/// Products with the gates and with what they are multiplied with: number i of row r is
/// data[r * stride + i], of the latter data[r * stride + up + i].
struct GateProducts {
  const char* data;
  int64_t stride, up;
};

// `each` numbers per thread.
template <class T, int each>
__global__ void __launch_bounds__(kThreads)
    gate_rows(const __grid_constant__ RowsCall call, const GateProducts products, int64_t count) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * each;
  if (at >= count) return;
  const int64_t from = at / call.columns * products.stride + at % call.columns;
  struct alignas(sizeof(T) * each) Numbers {
    T of[each];
  };
  const auto* const data = reinterpret_cast<const T*>(products.data);
  const auto gates = *reinterpret_cast<const Numbers*>(data + from);
  const auto ups = *reinterpret_cast<const Numbers*>(data + from + products.up);
  float results[each];
#pragma unroll
  for (int i = 0; i < each; ++i)
    results[i] =
        activated(load_value<float>(gates.of[i]), call.gate) * load_value<float>(ups.of[i]);
  if (each > 1 && call.out_dtype == call.x_dtype) {
    Numbers out;
#pragma unroll
    for (int i = 0; i < each; ++i) out.of[i] = store_value<T>(results[i]);
    reinterpret_cast<Numbers*>(call.out)[at / each] = out;
    return;
  }
#pragma unroll
  for (int i = 0; i < each; ++i) store_number(call.out, call.out_dtype, at + i, results[i]);
}

dim3 pass_over(std::string_view op, int64_t count) {
  const int64_t groups = (count + kThreads - 1) / kThreads;
  check(groups < int64_t{1} << 31, op, ": too many elements for one launch");
  return dim3(static_cast<unsigned>(groups));
}

struct Target {
  void* data;
  int64_t row_stride;
  DType dtype;
  const void* added;
};

// target = x @ weight^T + added
void multiply(std::string_view op, int device, const RowsCall& call, DType dtype, const char* data,
              const float* scale, int64_t rows, const Target& target) {
  const bool as_it_is = dtype == call.x_dtype && !scale;
  const auto bytes = static_cast<int64_t>(element_size(call.x_dtype));
  const Scratch unpacked(device, as_it_is ? 16 : static_cast<size_t>(rows * call.k * bytes));
  if (!as_it_is)
    unpack_weight(op, device, dtype, data, scale, rows, call.k, call.x_dtype, unpacked.data());
  Matmul product{.op = op, .device = device, .dtype = call.x_dtype};
  product.m = call.rows;
  product.n = rows;
  product.k = call.k;
  product.a = {const_cast<char*>(call.x), 0, call.k, 1};
  product.b = {as_it_is ? const_cast<char*>(data) : unpacked.data(), 0, 1, call.k};
  product.out = {target.data, 0, target.row_stride, 1};
  product.out_dtype = target.dtype;
  product.added = target.added;
  product.beta = target.added ? 1 : 0;
  blas_matmul(product);
}

/// Whether a matrix lies right below `before`, so that both are one.
struct Matrix {
  const char* data;
  const float* scale;
};
bool follows(const Matrix& matrix, const RowsWeight& before) {
  return matrix.data == before.data + before.rows * before.row_bytes &&
         matrix.scale == (before.scale ? before.scale + before.rows : nullptr);
}

void gated(std::string_view op, int device, DType weight, const RowsCall& call) {
  const int64_t count = int64_t{call.rows} * call.columns;
  const auto bytes = static_cast<int64_t>(element_size(call.x_dtype));
  const Scratch products(device, static_cast<size_t>(2 * count * bytes));
  const RowsWeight& pair = call.weights[0];
  GateProducts made{products.data(), call.columns, count};
  if (follows({pair.up, pair.up_scale}, pair)) {
    made.stride = int64_t{2} * call.columns;
    made.up = call.columns;
    multiply(op, device, call, weight, pair.data, pair.scale, int64_t{2} * pair.rows,
             {products.data(), made.stride, call.x_dtype, nullptr});
  } else {
    multiply(op, device, call, weight, pair.data, pair.scale, pair.rows,
             {products.data(), call.columns, call.x_dtype, nullptr});
    multiply(op, device, call, weight, pair.up, pair.up_scale, pair.rows,
             {products.data() + count * bytes, call.columns, call.x_dtype, nullptr});
  }
  const auto launch = [&]<class T>(std::type_identity<T>) {
    constexpr int kEach = 16 / sizeof(T);
    const bool whole = call.columns % kEach == 0 && reinterpret_cast<uintptr_t>(call.out) % 16 == 0;
    Launch{op, device}(whole ? gate_rows<T, kEach> : gate_rows<T, 1>,
                       pass_over(op, whole ? count / kEach : count), dim3(kThreads), call, made,
                       count);
  };
  if (call.x_dtype == DType::bfloat16)
    launch(std::type_identity<BFloat16>());
  else if (call.x_dtype == DType::float16)
    launch(std::type_identity<Half>());
  else
    launch(std::type_identity<float>());
}

}  // namespace

void many_rows(std::string_view op, int device, DType weight, const RowsCall& call) {
  // The library's results are float32 or of the operands' dtype.
  const bool direct = call.out_dtype == call.x_dtype || call.out_dtype == DType::float32;
  if (call.k == 0 || !direct) return general_rows(op, device, weight, call);
  if (call.gate != RowsCall::Gate::none) return gated(op, device, weight, call);
  const bool added = call.residual && call.residual_dtype == call.out_dtype;
  const auto bytes = static_cast<int64_t>(element_size(call.out_dtype));
  for (int i = 0; i < call.count; ++i) {
    RowsWeight one = call.weights[i];
    if (one.rows == 0) continue;
    for (;
         i + 1 < call.count && follows({call.weights[i + 1].data, call.weights[i + 1].scale}, one);
         ++i)
      one.rows += call.weights[i + 1].rows;
    const auto* const residual = static_cast<const char*>(call.residual);
    multiply(op, device, call, weight, one.data, one.scale, one.rows,
             {call.out + one.column * bytes, call.columns, call.out_dtype,
              added ? residual + one.column * bytes : nullptr});
    RowsCall rest = call;
    if (added) rest.residual = nullptr;
    if (!rest.bias && !rest.residual) continue;
    const int64_t count = int64_t{call.rows} * one.rows;
    Launch{op, device}(finish_rows, pass_over(op, count), dim3(kThreads), rest, one.column,
                       one.rows, count);
  }
}

}  // namespace tensora::cuda

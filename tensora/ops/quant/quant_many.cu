#include <algorithm>

#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/quant/quant_results.cuh"

// Note [Many rows times quantized weights]
// From some number of rows on the product is bound by the tensor cores, and unpacking a weight to
// 16-bit numbers, once per call, is a small part of it. The library multiplies these; it also adds
// a residual of the result's dtype, and leaves a float32 result unrounded. What it cannot do
// (a bias of another dtype, gates) is done by a pass over the result.

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

// products: rows of `columns` gates, then as many rows of what they are multiplied with.
__global__ void __launch_bounds__(kThreads)
    gate_rows(const __grid_constant__ RowsCall call, const char* products, int64_t count) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= count) return;
  const float gate = any_number(products, call.x_dtype, at);
  const float up = any_number(products, call.x_dtype, count + at);
  store_number(call.out, call.out_dtype, at, activated(gate, call.gate) * up);
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

void gated(std::string_view op, int device, DType weight, const RowsCall& call) {
  const int64_t count = int64_t{call.rows} * call.columns;
  const auto bytes = static_cast<int64_t>(element_size(call.x_dtype));
  const Scratch products(device, static_cast<size_t>(2 * count * bytes));
  const RowsWeight& pair = call.weights[0];
  multiply(op, device, call, weight, pair.data, pair.scale, pair.rows,
           {products.data(), call.columns, call.x_dtype, nullptr});
  multiply(op, device, call, weight, pair.up, pair.up_scale, pair.rows,
           {products.data() + count * bytes, call.columns, call.x_dtype, nullptr});
  Launch{op, device}(gate_rows, pass_over(op, count), dim3(kThreads), call, products.data(), count);
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
    const RowsWeight& one = call.weights[i];
    if (one.rows == 0) continue;
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

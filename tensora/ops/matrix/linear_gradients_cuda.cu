#include "tensora/ops/matrix/linear_gradients.h"

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/ops/matrix/readable_matrix.h"

namespace tensora::cuda {
namespace {

// The sums as a product with a row of ones.
void sum_rows(const KernelContext& context, const ReadableMatrix& grad, int64_t rows,
              const View& sums) {
  View ones = sums;
  const Scratch scratch(context.device.index, static_cast<size_t>(rows) * element_size(sums.dtype));
  ones.data = scratch.data();
  ones.sizes = {rows};
  ones.strides = {1};
  ones.update();
  fill_elements(context.op, ones, 1);
  blas_matmul({.op = context.op,
               .device = context.device.index,
               .dtype = sums.dtype,
               .m = 1,
               .n = sums.sizes[0],
               .k = rows,
               .a = {ones.data, 0, rows, 1},
               .b = grad.matrix(),
               .out = {sums.data, 0, sums.sizes[0], 1}});
}

void linear_gradients_kernel(const KernelContext& context, const NoAttrs&) {
  const View &grad = context.input(0), &input = context.input(1);
  const View &of_weight = context.output(0), &of_bias = context.output(1);
  const int64_t rows = grad.sizes[0];
  if (rows == 0) {
    fill_elements(context.op, of_weight, 0);
    fill_elements(context.op, of_bias, 0);
    return;
  }
  if (of_bias.numel == 0) return;
  const ReadableMatrix g(context, grad), x(context, input);
  if (of_weight.numel == 0) return sum_rows(context, g, rows, of_bias);
  Matmul product{.op = context.op,
                 .device = context.device.index,
                 .dtype = grad.dtype,
                 .m = of_weight.sizes[0],
                 .n = of_weight.sizes[1],
                 .k = rows,
                 .a = g.turned(),
                 .b = x.matrix(),
                 .out = {of_weight.data, 0, of_weight.sizes[1], 1}};
  if (grad.dtype != DType::float64) {
    product.epilogue.sums_of_a = of_bias.data;
    if (blas_matmul(product)) return;
    product.epilogue = {};
  }
  blas_matmul(product);
  sum_rows(context, g, rows, of_bias);
}

}  // namespace

void register_linear_gradients_cuda() {
  linear_gradients_op.set_kernel(DeviceType::cuda, linear_gradients_kernel);
}

}  // namespace tensora::cuda

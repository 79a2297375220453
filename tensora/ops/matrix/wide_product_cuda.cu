#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/ops/matrix/readable_matrix.h"
#include "tensora/ops/matrix/wide_product_op.h"

namespace tensora::cuda {
namespace {

void wide_product_kernel(const KernelContext& context, const NoAttrs&) {
  const View &sum = context.input(0), &a = context.input(1), &b = context.input(2);
  const View& out = context.output();
  if (out.numel == 0) return;
  // The library writes row-major results; another layout (in place) goes through a copy.
  View result = out;
  std::optional<Scratch> copy;
  if (!out.contiguous) {
    copy.emplace(context.device.index, out.bytes());
    result.data = copy->data();
    result.strides = contiguous_strides(out.sizes);
    result.update();
  }
  if (sum.data != result.data) copy_elements(context.op, sum, result);
  if (a.sizes[1] > 0) {
    const ReadableMatrix first(context, a), second(context, b);
    blas_matmul({.op = context.op,
                 .device = context.device.index,
                 .dtype = a.dtype,
                 .m = out.sizes[0],
                 .n = out.sizes[1],
                 .k = a.sizes[1],
                 .a = first.matrix(),
                 .b = second.matrix(),
                 .out = {result.data, 0, out.sizes[1], 1},
                 .beta = 1,
                 .out_dtype = kFloat32});
  }
  if (!out.contiguous) copy_elements(context.op, result, out);
}

}  // namespace

void register_wide_product_cuda() {
  add_wide_product_op.set_kernel(DeviceType::cuda, wide_product_kernel);
}

}  // namespace tensora::cuda

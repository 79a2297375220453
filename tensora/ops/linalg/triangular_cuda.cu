#include "tensora/ops/linalg/triangular.h"

#include "tensora/backend/cuda/linalg/factor.h"
#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/ops/linalg/batch.h"

namespace tensora::cuda {
namespace {

void solve_triangular_kernel(const KernelContext& context, const TriangularAttrs& attrs) {
  const View &A = context.input(0), &X = context.output();
  if (X.numel == 0) return;
  copy_elements(context.op, context.input(1), X);
  const Shape batch = batch_sizes(X);
  const Columns triangles(context, A, batch, MatrixOrder::columns_or_rows);
  solve_triangular({.context = context,
                    .dtype = X.dtype,
                    .count = batch.numel(),
                    .m = X.sizes[X.dim() - 2],
                    .n = X.sizes[X.dim() - 1]},
                   triangles.matrices(), columns_of(X),
                   {.upper = attrs.upper, .left = attrs.left, .unit = attrs.unitriangular});
}

}  // namespace

void register_triangular_cuda() {
  solve_triangular_op.set_kernel(DeviceType::cuda, solve_triangular_kernel);
}

}  // namespace tensora::cuda

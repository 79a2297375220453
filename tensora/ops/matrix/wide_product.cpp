#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/matrix/wide_product_op.h"
#include "tensora/ops/operators.h"

namespace tensora {

constinit OpDef<NoAttrs> add_wide_product_op = define(Op<NoAttrs>{
    .name = "add_wide_product",
    .inputs = {"sum", "a", "b"},
    .infer =
        [](Infer& infer, const NoAttrs&) {
          const Tensor &sum = infer[0], &a = infer[1], &b = infer[2];
          infer.check(sum.dtype() == kFloat32 && a.dtype() == b.dtype() &&
                          (a.dtype() == kBFloat16 || a.dtype() == kFloat16),
                      "expected a float32 sum and two factors of one 16-bit dtype, got ",
                      sum.dtype(), ", ", a.dtype(), " and ", b.dtype());
          infer.check(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) &&
                          sum.sizes() == Shape{a.size(0), b.size(1)},
                      "the shapes ", sum.sizes(), ", ", a.sizes(), " and ", b.sizes(),
                      " do not fit: expected [m, n], [m, k] and [k, n]");
          infer.output(sum.sizes(), kFloat32);
        },
    .reference =
        [](Args in, const NoAttrs&) {
          return Tensors{contiguous(*in[0] + matmul(to(*in[1], kFloat32), to(*in[2], kFloat32)))};
        },
    .gradient = Gradient::by_reference,
});

void register_wide_product(OpRegistry& registry) { registry.add(add_wide_product_op); }

}  // namespace tensora

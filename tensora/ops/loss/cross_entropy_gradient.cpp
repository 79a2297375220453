#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/loss/cross_entropy_gradient_op.h"
#include "tensora/ops/shape/expand.h"

namespace tensora {

constinit OpDef<CrossEntropyAttrs> cross_entropy_gradient_op = define(Op<CrossEntropyAttrs>{
    .name = "cross_entropy_gradient",
    .inputs = {"input", "losses", "target", "factor"},
    .infer =
        [](Infer& infer, const CrossEntropyAttrs& attrs) {
          const Tensor &input = infer[0], &losses = infer[1], &target = infer[2],
                       &factor = infer[3];
          infer.check(input.is_floating_point() && input.dim() == 2,
                      "expected a floating-point input [N, C], got ", input.dtype(), " of shape ",
                      input.sizes());
          const Shape rows{input.size(0)};
          const DType wide = promote_types(input.dtype(), kFloat32);
          infer.check(losses.sizes() == rows && losses.dtype() == wide, "expected losses of shape ",
                      rows, " and dtype ", wide, ", got ", losses.dtype(), " of shape ",
                      losses.sizes());
          infer.check(
              target.sizes() == rows && (target.dtype() == kInt64 || target.dtype() == kInt32),
              "expected int64 or int32 class numbers of shape ", rows, ", got ", target.dtype(),
              " of shape ", target.sizes());
          infer.check(factor.dim() == 0 && factor.dtype() == wide, "expected one factor of dtype ",
                      wide, ", got ", factor.dtype(), " of shape ", factor.sizes());
          infer.check(attrs.label_smoothing == 0, "labels are not smoothed here, got ",
                      attrs.label_smoothing);
          infer.output(input.sizes(), input.dtype());
          infer.output(rows, wide);
        },
    .reference =
        [](Args in, const CrossEntropyAttrs& attrs) {
          const Tensors each = apply_all(cross_entropy_op, {*in[0], *in[2]}, attrs);
          const Tensor grad = expand(*in[3], in[1]->sizes());
          const Tensor result =
              apply(cross_entropy_backward_op, {grad, *in[0], *in[2], each[2], each[3]}, attrs);
          return Tensors{contiguous(result), each[0]};
        },
    .gradient = Gradient::not_differentiable,
});

void register_cross_entropy_gradient(OpRegistry& registry) {
  registry.add(cross_entropy_gradient_op);
}

}  // namespace tensora

#include "tensora/ops/matrix/linear_gradients.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/permute.h"

namespace tensora {

constinit OpDef<NoAttrs> linear_gradients_op = define(Op<NoAttrs>{
    .name = "linear_gradients",
    .inputs = {"grad", "input"},
    .internal = true,
    .infer =
        [](Infer& infer, const NoAttrs&) {
          const int64_t n = infer[0].size(1);
          infer.output({n, infer[1].size(1)}, infer[0].dtype());
          infer.output({n}, infer[0].dtype());
        },
    .reference =
        [](Args in, const NoAttrs&) {
          return Tensors{matmul(transpose(*in[0], 0, 1), *in[1]), sum(*in[0], {0})};
        },
    .gradient = Gradient::by_reference,
});

void register_linear_gradients(OpRegistry& registry) { registry.add(linear_gradients_op); }

}  // namespace tensora

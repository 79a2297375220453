#include "tensora/ops/loss/expect.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/any_all.h"

namespace tensora {

constinit OpDef<ExpectAttrs> expect_op = define(Op<ExpectAttrs>{
    .name = "expect",
    .inputs = {"self"},
    .internal = true,
    .infer = [](Infer& infer, const ExpectAttrs&) { infer.output({0}, infer[0].dtype()); },
    .reference =
        [](Args in, const ExpectAttrs& attrs) {
          const Tensor& x = *in[0];
          const Expectation& expected = kExpectations[static_cast<int>(attrs.what)];
          const Tensor wrong = expected.nan_passes
                                   ? any((x < expected.low) || (x > expected.high))
                                   : !all((x >= expected.low) && (x <= expected.high));
          if (wrong.item<bool>()) fail_expectation(expected);
          return Tensors{empty({0}, {.dtype = x.dtype(), .device = x.device()})};
        },
    .gradient = Gradient::not_differentiable,
});

void register_expect(OpRegistry& registry) { registry.add(expect_op); }

}  // namespace tensora

#include "tensora/ops/creation/one_hot.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<OneHotAttrs>) {
  return fields(field("num_classes", &OneHotAttrs::num_classes));
}

constinit OpDef<OneHotAttrs> one_hot_op = define(Op<OneHotAttrs>{
    .name = "one_hot",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const OneHotAttrs& attrs) {
          infer.check(infer[0].dtype() == kInt64, "expected class numbers of dtype int64, got ",
                      infer[0].dtype());
          infer.check(attrs.num_classes >= 0, "num_classes must not be negative, got ",
                      attrs.num_classes);
          infer.check(attrs.num_classes > 0 || infer[0].numel() == 0,
                      "num_classes must be above zero for a tensor that is not empty");
          Shape sizes = infer[0].sizes();
          sizes.push_back(attrs.num_classes);
          infer.output(sizes, kInt64);
        },
    .reference =
        [](Args in, const OneHotAttrs& attrs) {
          const Tensor& classes = *in[0];
          if (classes.numel() > 0) {
            const auto [least, most] = aminmax(classes);
            const int64_t low = least.item<int64_t>(), high = most.item<int64_t>();
            check(low >= 0 && high < attrs.num_classes, "one_hot: class ", low < 0 ? low : high,
                  " is out of range for num_classes ", attrs.num_classes);
          }
          const Tensor columns = arange(attrs.num_classes, {.device = classes.device()});
          return Tensors{to(eq(unsqueeze(classes, -1), columns), kInt64)};
        },
    .gradient = Gradient::not_differentiable,
});

void register_one_hot(OpRegistry& registry) {
  registry.add(one_hot_op);
  shard_by(one_hot_op, "*->*.");
}

Tensor one_hot(const Tensor& self, int64_t num_classes) {
  if (num_classes == -1) {
    check(self.numel() > 0, "one_hot: cannot infer num_classes from an empty tensor");
    check(self.dtype() == kInt64, "one_hot: expected class numbers of dtype int64, got ",
          self.dtype());
    num_classes = amax(self).item<int64_t>() + 1;
    check(num_classes > 0, "one_hot: class numbers must not be negative");
  }
  return apply(one_hot_op, {self}, {num_classes});
}

}  // namespace tensora

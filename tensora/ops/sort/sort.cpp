#include "tensora/ops/sort/sort.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/sort/chosen.h"
#include "tensora/ops/sort/sort_values_op.h"

namespace tensora {

constexpr auto describe(std::type_identity<SortAttrs>) {
  return fields(field("dim", &SortAttrs::dim), field("descending", &SortAttrs::descending));
}

constinit OpDef<SortAttrs> sort_op = define(Op<SortAttrs>{
    .name = "sort",
    .inputs = {"self"},
    .primitive = true,
    .infer =
        [](Infer& infer, const SortAttrs& attrs) {
          wrap_dim(attrs.dim, infer[0].dim(), infer.op);
          const Strides strides = kept_strides(infer[0].sizes(), infer[0].strides());
          infer.output(infer[0].sizes(), strides, infer[0].dtype());
          infer.output(infer[0].sizes(), strides, kInt64);
        },
    .vjp =
        [](Vjp& vjp, const SortAttrs& attrs) {
          vjp.set(0, put_chosen(vjp.grad(), vjp.output(1), vjp.input_sizes(0), attrs.dim));
        },
    .saves = {out(1)},
});

constinit OpDef<NoAttrs> sort_values_op = define(Op<NoAttrs>{
    .name = "sort_values",
    .inputs = {"self"},
    .internal = true,
    .infer =
        [](Infer& infer, const NoAttrs&) {
          infer.check(infer[0].is_contiguous() && infer[0].dim() == 1,
                      "expected a contiguous vector");
          infer.output(infer[0].sizes(), infer[0].strides(), infer[0].dtype());
        },
    .reference = [](Args in, const NoAttrs&) { return Tensors{std::get<0>(sort(*in[0], 0))}; },
    .gradient = Gradient::not_differentiable,
});

void register_sort(OpRegistry& registry) {
  registry.add(sort_op);
  registry.add(sort_values_op);
  shard_by(sort_op, "along dim");
}

std::tuple<Tensor, Tensor> sort(const Tensor& self, int64_t dim, bool descending, bool) {
  return pair_of(apply_all(sort_op, {self}, {dim, descending}));
}

Tensor argsort(const Tensor& self, int64_t dim, bool descending, bool stable) {
  return std::get<1>(sort(self.detach(), dim, descending, stable));
}

Tensor msort(const Tensor& self) { return std::get<0>(sort(self, 0)); }

}  // namespace tensora

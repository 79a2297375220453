#include "tensora/ops/sort/topk.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/shape/slice.h"
#include "tensora/ops/sort/chosen.h"
#include "tensora/ops/sort/sort.h"

namespace tensora {

constexpr auto describe(std::type_identity<TopkAttrs>) {
  return fields(field("k", &TopkAttrs::k), field("dim", &TopkAttrs::dim),
                field("largest", &TopkAttrs::largest));
}

constinit OpDef<TopkAttrs> topk_op = define(Op<TopkAttrs>{
    .name = "topk",
    .inputs = {"self"},
    .infer =
        [](Infer& infer, const TopkAttrs& attrs) {
          const Tensor& x = infer[0];
          const int dim = wrap_dim(attrs.dim, x.dim(), infer.op);
          const int64_t length = x.dim() == 0 ? 1 : x.sizes()[dim];
          infer.check(attrs.k >= 0 && attrs.k <= length, "k must be between 0 and ", length,
                      ", the size of dimension ", dim, ", got ", attrs.k);
          Shape sizes = x.sizes();
          if (x.dim() > 0) sizes[dim] = attrs.k;
          infer.output(sizes, x.dtype());
          infer.output(sizes, kInt64);
        },
    .reference =
        [](Args in, const TopkAttrs& attrs) {
          auto [values, indices] = sort(*in[0], attrs.dim, attrs.largest);
          if (in[0]->dim() == 0) return Tensors{values, indices};
          return Tensors{contiguous(narrow(values, attrs.dim, 0, attrs.k)),
                         contiguous(narrow(indices, attrs.dim, 0, attrs.k))};
        },
    .vjp =
        [](Vjp& vjp, const TopkAttrs& attrs) {
          vjp.set(0, put_chosen(vjp.grad(), vjp.output(1), vjp.input_sizes(0), attrs.dim));
        },
    .saves = {out(1)},
});

void register_topk(OpRegistry& registry) {
  registry.add(topk_op);
  shard_by(topk_op, "along dim");
}

std::tuple<Tensor, Tensor> topk(const Tensor& self, int64_t k, int64_t dim, bool largest, bool) {
  return pair_of(apply_all(topk_op, {self}, {k, dim, largest}));
}

}  // namespace tensora

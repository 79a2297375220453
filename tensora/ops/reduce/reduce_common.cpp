#include "tensora/ops/reduce/reduce_common.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/reduce/sum.h"

namespace tensora {
namespace {

struct UnreduceAttrs {
  Shape sizes;
  Dims dim;
  bool keepdim = false;
};
constexpr auto describe(std::type_identity<UnreduceAttrs>) {
  return fields(field("sizes", &UnreduceAttrs::sizes), field("dim", &UnreduceAttrs::dim),
                field("keepdim", &UnreduceAttrs::keepdim));
}

constinit OpDef<UnreduceAttrs> unreduce_op = define(Op<UnreduceAttrs>{
    .name = "unreduce",
    .inputs = {"self"},
    .internal = true,
    .infer =
        [](Infer& infer, const UnreduceAttrs& attrs) {
          const Tensor& x = infer[0];
          const uint32_t mask = reduced_mask(attrs.dim, attrs.sizes.size(), infer.op);
          infer.check(x.sizes() == reduced_sizes(attrs.sizes, mask, attrs.keepdim), "shape ",
                      x.sizes(), " is not what reducing dims ", attrs.dim, " of shape ",
                      attrs.sizes, " leaves");
          Strides strides;
          int next = 0;
          for (int d = 0; d < attrs.sizes.size(); ++d) {
            const bool reduced = mask >> d & 1;
            strides.push_back(reduced ? 0 : x.strides()[next]);
            if (!reduced || attrs.keepdim) ++next;
          }
          infer.view(attrs.sizes, strides, x.storage_offset());
        },
    .vjp =
        [](Vjp& vjp, const UnreduceAttrs& attrs) {
          vjp.set(0, sum(vjp.grad(), attrs.dim, attrs.keepdim));
        },
    .view = true,
});

}  // namespace

uint32_t reduced_mask(const Dims& dim, int rank, std::string_view op) {
  if (dim.empty()) return (1u << rank) - 1;
  uint32_t mask = 0;
  for (int64_t d : wrap_dims(dim, rank, op)) mask |= 1u << d;
  return mask;
}

uint32_t nonempty_mask(const Infer& infer, const Dims& dim) {
  const Shape& sizes = infer[0].sizes();
  const uint32_t mask = reduced_mask(dim, sizes.size(), infer.op);
  for (int d = 0; d < sizes.size(); ++d)
    infer.check(!(mask >> d & 1) || sizes[d] != 0, "cannot reduce over dim ", d,
                ", which has size 0, because there is no result for nothing; got shape ", sizes);
  return mask;
}

Shape reduced_sizes(const Shape& sizes, uint32_t mask, bool keepdim) {
  Shape result;
  for (int d = 0; d < sizes.size(); ++d) {
    if (!(mask >> d & 1))
      result.push_back(sizes[d]);
    else if (keepdim)
      result.push_back(1);
  }
  return result;
}

int64_t reduced_count(const Shape& sizes, uint32_t mask) {
  int64_t count = 1;
  for (int d = 0; d < sizes.size(); ++d)
    if (mask >> d & 1) count *= sizes[d];
  return count;
}

Tensor unreduce(const Tensor& result, const Shape& sizes, const Dims& dim, bool keepdim) {
  return apply(unreduce_op, {result}, {sizes, dim, keepdim});
}

void register_reduce_common(OpRegistry& registry) {
  registry.add(unreduce_op);
  shard_by(unreduce_op, "strides sizes");
}

}  // namespace tensora

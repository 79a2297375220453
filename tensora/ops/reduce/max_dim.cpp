#include "tensora/ops/reduce/max_dim.h"

#include "tensora/ops/reduce/pick.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora {
namespace {

Shape result_sizes(const Infer& infer, const DimAttrs& attrs) {
  const uint32_t mask = nonempty_mask(infer, attrs.dim ? Dims{*attrs.dim} : Dims{});
  return reduced_sizes(infer[0].sizes(), mask, attrs.keepdim);
}

void infer_values_and_indices(Infer& infer, const DimAttrs& attrs) {
  const Shape sizes = result_sizes(infer, attrs);
  infer.output(sizes, infer[0].dtype());
  infer.output(sizes, kInt64);
}

void infer_indices(Infer& infer, const DimAttrs& attrs) {
  infer.output(result_sizes(infer, attrs), kInt64);
}

void chosen_vjp(Vjp& vjp, const DimAttrs& attrs) {
  const Shape& sizes = vjp.input_sizes(0);
  const int dim = wrap_dim(*attrs.dim, sizes.size(), "max");
  vjp.set(0, put_picked(vjp.grad(0), vjp.output(1), {sizes, dim, attrs.keepdim}));
}

std::tuple<Tensor, Tensor> values_and_indices(const OpDef<DimAttrs>& op, const Tensor& self,
                                              int64_t dim, bool keepdim) {
  Tensors both = apply_all(op, {self}, {dim, keepdim});
  return {std::move(both[0]), std::move(both[1])};
}

}  // namespace

constinit OpDef<DimAttrs> max_dim_op = define(Op<DimAttrs>{
    .name = "max_dim", .infer = infer_values_and_indices, .vjp = chosen_vjp, .saves = {out(1)}});
constinit OpDef<DimAttrs> min_dim_op = define(Op<DimAttrs>{
    .name = "min_dim", .infer = infer_values_and_indices, .vjp = chosen_vjp, .saves = {out(1)}});
constinit OpDef<DimAttrs> argmax_op = define(Op<DimAttrs>{
    .name = "argmax", .infer = infer_indices, .gradient = Gradient::not_differentiable});
constinit OpDef<DimAttrs> argmin_op = define(Op<DimAttrs>{
    .name = "argmin", .infer = infer_indices, .gradient = Gradient::not_differentiable});

void register_max_dim(OpRegistry& registry) {
  for (const OpDef<DimAttrs>* op : {&max_dim_op, &min_dim_op, &argmax_op, &argmin_op})
    registry.add(*op);
}

std::tuple<Tensor, Tensor> max(const Tensor& self, int64_t dim, bool keepdim) {
  return values_and_indices(max_dim_op, self, dim, keepdim);
}

std::tuple<Tensor, Tensor> min(const Tensor& self, int64_t dim, bool keepdim) {
  return values_and_indices(min_dim_op, self, dim, keepdim);
}

Tensor argmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  return apply(argmax_op, {self}, {dim, keepdim});
}

Tensor argmin(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  return apply(argmin_op, {self}, {dim, keepdim});
}

}  // namespace tensora

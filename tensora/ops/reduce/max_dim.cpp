#include "tensora/ops/reduce/max_dim.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/reduce/amax.h"
#include "tensora/ops/reduce/pick.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {

constexpr auto describe(std::type_identity<DimAttrs>) {
  return fields(field("dim", &DimAttrs::dim), field("keepdim", &DimAttrs::keepdim));
}

namespace {

Shape result_sizes(const Infer& infer, const DimAttrs& attrs) {
  const uint32_t mask = nonempty_mask(infer, attrs.dim ? Dims{*attrs.dim} : Dims{});
  return reduced_sizes(infer[0].sizes(), mask, attrs.keepdim);
}

void infer_values_and_indices(Infer& infer, const DimAttrs& attrs) {
  infer.check(attrs.dim.has_value(), "expected a dim");
  const Shape sizes = result_sizes(infer, attrs);
  infer.output(sizes, infer[0].dtype());
  infer.output(sizes, kInt64);
}

void infer_indices(Infer& infer, const DimAttrs& attrs) {
  infer.output(result_sizes(infer, attrs), kInt64);
}

// The position of the first element that is the extremum, or NaN if that is.
template <bool largest>
Tensor first_extremum(const Tensor& self, const DimAttrs& attrs) {
  const Tensor x = attrs.dim && self.dim() > 0 ? self : ravel(self);
  const int dim = wrap_dim(attrs.dim && self.dim() > 0 ? *attrs.dim : 0, x.dim(), "argmax");
  const int64_t n = x.sizes()[dim];
  const Tensor extremum = largest ? amax(x, {dim}, true) : amin(x, {dim}, true);
  const Tensor chosen = where(isnan(extremum), isnan(x), eq(x, extremum));
  Shape along = Shape::filled(x.dim(), 1);
  along[dim] = n;
  const Tensor places = reshape(arange(n, {.device = x.device()}), along);
  const Tensor first = amin(where(chosen, places, n), {dim}, false);
  const uint32_t mask = reduced_mask(attrs.dim ? Dims{*attrs.dim} : Dims{}, self.dim(), "argmax");
  return reshape(first, reduced_sizes(self.sizes(), mask, attrs.keepdim));
}

template <bool largest>
Tensors indices_reference(Args in, const DimAttrs& attrs) {
  return Tensors{first_extremum<largest>(*in[0], attrs)};
}

template <bool largest>
Tensors values_reference(Args in, const DimAttrs& attrs) {
  const Tensor& x = *in[0];
  const Tensor indices = first_extremum<largest>(x, attrs);
  const int dim = wrap_dim(*attrs.dim, x.dim(), "max");
  return Tensors{pick(x, indices, {x.sizes(), dim, attrs.keepdim}), indices};
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

constinit OpDef<DimAttrs> max_dim_op = define(Op<DimAttrs>{.name = "max_dim",
                                                           .inputs = {"self"},
                                                           .infer = infer_values_and_indices,
                                                           .reference = values_reference<true>,
                                                           .vjp = chosen_vjp,
                                                           .saves = {out(1)}});
constinit OpDef<DimAttrs> min_dim_op = define(Op<DimAttrs>{.name = "min_dim",
                                                           .inputs = {"self"},
                                                           .infer = infer_values_and_indices,
                                                           .reference = values_reference<false>,
                                                           .vjp = chosen_vjp,
                                                           .saves = {out(1)}});
constinit OpDef<DimAttrs> argmax_op =
    define(Op<DimAttrs>{.name = "argmax",
                        .inputs = {"self"},
                        .infer = infer_indices,
                        .reference = indices_reference<true>,
                        .gradient = Gradient::not_differentiable});
constinit OpDef<DimAttrs> argmin_op =
    define(Op<DimAttrs>{.name = "argmin",
                        .inputs = {"self"},
                        .infer = infer_indices,
                        .reference = indices_reference<false>,
                        .gradient = Gradient::not_differentiable});

void register_max_dim(OpRegistry& registry) {
  for (const OpDef<DimAttrs>* op : {&max_dim_op, &min_dim_op, &argmax_op, &argmin_op})
    registry.add(*op);
  shard_by(max_dim_op, "reduce dim");
  shard_by(min_dim_op, "reduce dim");
  shard_by(argmax_op, "reduce dim");
  shard_by(argmin_op, "reduce dim");
}

std::tuple<Tensor, Tensor> max(const Tensor& self, int64_t dim, bool keepdim) {
  return called_as("max", [&]() { return values_and_indices(max_dim_op, self, dim, keepdim); });
}

std::tuple<Tensor, Tensor> min(const Tensor& self, int64_t dim, bool keepdim) {
  return called_as("min", [&]() { return values_and_indices(min_dim_op, self, dim, keepdim); });
}

Tensor argmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  return apply(argmax_op, {self}, {dim, keepdim});
}

Tensor argmin(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  return apply(argmin_op, {self}, {dim, keepdim});
}

}  // namespace tensora

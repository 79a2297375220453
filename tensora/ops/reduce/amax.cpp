#include "tensora/ops/reduce/amax.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum.h"

namespace tensora {
namespace {

void infer_extremum(Infer& infer, const ReduceAttrs& attrs) {
  const uint32_t mask = nonempty_mask(infer, attrs.dim);
  infer.output(reduced_sizes(infer[0].sizes(), mask, attrs.keepdim), infer[0].dtype());
}

void infer_aminmax(Infer& infer, const ReduceAttrs& attrs) {
  infer_extremum(infer, attrs);
  infer_extremum(infer, attrs);
}

// The gradient of one extremum, shared evenly among the elements that `chosen` marks.
Tensor share(const Tensor& grad, const Tensor& chosen, const ReduceAttrs& attrs) {
  const Tensor each = grad / sum(chosen, attrs.dim, attrs.keepdim);
  return unreduce(each, chosen.sizes(), attrs.dim, attrs.keepdim) * chosen;
}

Tensor extremum_gradient(const Tensor& grad, const Tensor& x, const Tensor& y,
                         const ReduceAttrs& attrs) {
  return share(grad, eq(x, unreduce(y, x.sizes(), attrs.dim, attrs.keepdim)), attrs);
}

void extremum_vjp(Vjp& vjp, const ReduceAttrs& attrs) {
  vjp.set(0, extremum_gradient(vjp.grad(), vjp.input(0), vjp.output(), attrs));
}

// Unlike amax, max and min of all elements know which ones are chosen when that is NaN.
void full_extremum_vjp(Vjp& vjp, const ReduceAttrs& attrs) {
  const Tensor x = vjp.input(0), y = vjp.output();
  vjp.set(0, share(vjp.grad(), where(isnan(y), isnan(x), eq(x, y)), attrs));
}

void aminmax_vjp(Vjp& vjp, const ReduceAttrs& attrs) {
  const Tensor x = vjp.input(0);
  Tensor total;
  for (size_t k = 0; k < 2; ++k) {
    if (!vjp.grad(k).defined()) continue;
    const Tensor part = extremum_gradient(vjp.grad(k), x, vjp.output(k), attrs);
    total = total.defined() ? total + part : part;
  }
  vjp.set(0, total);
}

}  // namespace

constinit OpDef<ReduceAttrs> amax_op = define(Op<ReduceAttrs>{.name = "amax",
                                                              .inputs = {"self"},
                                                              .primitive = true,
                                                              .infer = infer_extremum,
                                                              .vjp = extremum_vjp,
                                                              .saves = {in(0) | out(0)}});
constinit OpDef<ReduceAttrs> amin_op = define(Op<ReduceAttrs>{.name = "amin",
                                                              .inputs = {"self"},
                                                              .primitive = true,
                                                              .infer = infer_extremum,
                                                              .vjp = extremum_vjp,
                                                              .saves = {in(0) | out(0)}});
constinit OpDef<ReduceAttrs> max_op = define(Op<ReduceAttrs>{
    .name = "max",
    .inputs = {"self"},
    .infer = infer_extremum,
    .reference = [](Args in,
                    const ReduceAttrs& attrs) { return Tensors{apply(amax_op, in, attrs)}; },
    .vjp = full_extremum_vjp,
    .saves = {in(0) | out(0)}});
constinit OpDef<ReduceAttrs> min_op = define(Op<ReduceAttrs>{
    .name = "min",
    .inputs = {"self"},
    .infer = infer_extremum,
    .reference = [](Args in,
                    const ReduceAttrs& attrs) { return Tensors{apply(amin_op, in, attrs)}; },
    .vjp = full_extremum_vjp,
    .saves = {in(0) | out(0)}});
constinit OpDef<ReduceAttrs> aminmax_op = define(
    Op<ReduceAttrs>{.name = "aminmax",
                    .inputs = {"self"},
                    .infer = infer_aminmax,
                    .reference =
                        [](Args in, const ReduceAttrs& attrs) {
                          return Tensors{apply(amin_op, in, attrs), apply(amax_op, in, attrs)};
                        },
                    .vjp = aminmax_vjp,
                    .saves = {in(0) | out(0) | out(1)}});

void register_amax(OpRegistry& registry) {
  for (const OpDef<ReduceAttrs>* op : {&amax_op, &amin_op, &max_op, &min_op, &aminmax_op})
    registry.add(*op);
  shard_by(amax_op, "reduce dim by maximum");
  shard_by(amin_op, "reduce dim by minimum");
  shard_by(max_op, "reduce dim by maximum");
  shard_by(min_op, "reduce dim by minimum");
  shard_by(aminmax_op, "reduce dim");
}

Tensor amax(const Tensor& self, const Dims& dim, bool keepdim) {
  return apply(amax_op, {self}, {dim, keepdim});
}

Tensor amin(const Tensor& self, const Dims& dim, bool keepdim) {
  return apply(amin_op, {self}, {dim, keepdim});
}

std::tuple<Tensor, Tensor> aminmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  Tensors both = apply_all(aminmax_op, {self}, {dim ? Dims{*dim} : Dims{}, keepdim});
  return {std::move(both[0]), std::move(both[1])};
}

Tensor max(const Tensor& self) { return apply(max_op, {self}); }
Tensor min(const Tensor& self) { return apply(min_op, {self}); }
Tensor max(const Tensor& self, const Tensor& other) {
  return called_as("max", [&] { return maximum(self, other); });
}
Tensor min(const Tensor& self, const Tensor& other) {
  return called_as("min", [&] { return minimum(self, other); });
}

}  // namespace tensora

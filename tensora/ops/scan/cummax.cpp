#include "tensora/ops/scan/cummax.h"

#include "tensora/dispatch/op.h"
#include "tensora/dispatch/sharding.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {

constexpr auto describe(std::type_identity<CummaxAttrs>) {
  return fields(field("dim", &CummaxAttrs::dim));
}

namespace {

void infer_cummax(Infer& infer, const CummaxAttrs& attrs) {
  wrap_dim(attrs.dim, infer[0].dim(), infer.op);
  infer.output(infer[0].sizes(), infer[0].dtype());
  infer.output(infer[0].sizes(), kInt64);
}

// After the round with distance d, element i has seen the 2 d elements up to itself.
template <bool largest>
Tensors cummax_reference(Args in, const CummaxAttrs& attrs) {
  const Tensor x = in[0]->dim() == 0 ? ravel(*in[0]) : *in[0];
  const int dim = wrap_dim(attrs.dim, x.dim(), "cummax");
  const int64_t n = x.sizes()[dim];
  Shape along = Shape::filled(x.dim(), 1);
  along[dim] = n;
  Tensor values = n > 1 ? x : cat({x}, dim);  // never the input itself
  Tensor indices = expand(reshape(arange(n, {.device = x.device()}), along), x.sizes());
  for (int64_t distance = 1; distance < n; distance *= 2) {
    const auto before = [&](const Tensor& t) { return narrow(t, dim, 0, n - distance); };
    const auto after = [&](const Tensor& t) { return narrow(t, dim, distance, n - distance); };
    const Tensor a = before(values), b = after(values);
    const Tensor replaces =
        logical_or(isnan(b), logical_and(logical_not(isnan(a)), largest ? ge(b, a) : le(b, a)));
    const auto joined = [&](const Tensor& t) {
      return cat({narrow(t, dim, 0, distance), where(replaces, after(t), before(t))}, dim);
    };
    const Tensor next = joined(values);
    indices = joined(indices);
    values = next;
  }
  const auto shaped = [&](const Tensor& t) { return contiguous(reshape(t, in[0]->sizes())); };
  return Tensors{shaped(values), shaped(indices)};
}

void cummax_vjp(Vjp& vjp, const CummaxAttrs& attrs) {
  vjp.set(0,
          apply(gather_backward_op, {vjp.grad(), vjp.output(1)}, {vjp.input_sizes(0), attrs.dim}));
}

std::tuple<Tensor, Tensor> both(const OpDef<CummaxAttrs>& op, const Tensor& self, int64_t dim) {
  Tensors outputs = apply_all(op, {self}, {dim});
  return {std::move(outputs[0]), std::move(outputs[1])};
}

}  // namespace

constinit OpDef<CummaxAttrs> cummax_op = define(Op<CummaxAttrs>{.name = "cummax",
                                                                .inputs = {"self"},
                                                                .infer = infer_cummax,
                                                                .reference = cummax_reference<true>,
                                                                .vjp = cummax_vjp,
                                                                .saves = {out(1)}});
constinit OpDef<CummaxAttrs> cummin_op =
    define(Op<CummaxAttrs>{.name = "cummin",
                           .inputs = {"self"},
                           .infer = infer_cummax,
                           .reference = cummax_reference<false>,
                           .vjp = cummax_vjp,
                           .saves = {out(1)}});

void register_cummax(OpRegistry& registry) {
  registry.add(cummax_op);
  registry.add(cummin_op);
  shard_by(cummax_op, "along dim");
  shard_by(cummin_op, "along dim");
}

std::tuple<Tensor, Tensor> cummax(const Tensor& self, int64_t dim) {
  return both(cummax_op, self, dim);
}
std::tuple<Tensor, Tensor> cummin(const Tensor& self, int64_t dim) {
  return both(cummin_op, self, dim);
}

}  // namespace tensora

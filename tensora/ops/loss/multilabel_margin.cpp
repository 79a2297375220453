#include "tensora/ops/loss/multilabel_margin.h"

#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/loss/multilabel_margin_op.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/scan/cumulative.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

DType wide_dtype(DType dtype) { return promote_types(dtype, kFloat32); }

// What the definitions share: 1 - x[y] + x[i], and which of these pairs count; both [N, y, i].
struct Pairs {
  Tensor excess, counts, place;

  Pairs(const Tensor& x, const Tensor& target) {
    const Tensor y = to(target, kInt64);
    const Tensor listed = cumprod(to(y >= 0, kInt64), 1);
    place = where(listed != 0, y, 0);
    const Tensor times = scatter_add(zeros_like(listed), 1, place, listed);
    excess = 1 - unsqueeze(gather(x, 1, place), 2) + unsqueeze(x, 1);
    counts = to(logical_and(unsqueeze(listed != 0, 2), unsqueeze(times == 0, 1)), x.dtype());
  }
};

double share(const Tensor& x) { return 1 / static_cast<double>(x.size(1)); }

}  // namespace

constinit OpDef<NoAttrs> multilabel_margin_op = define(Op<NoAttrs>{
    .name = "multilabel_margin_loss",
    .inputs = {"input", "target"},
    .infer =
        [](Infer& infer, const NoAttrs&) {
          const Tensor &x = infer[0], &y = infer[1];
          infer.check(x.dim() == 2 && x.is_floating_point(),
                      "expected floating-point scores (N, C), got ", x.dtype(), " of shape ",
                      x.sizes());
          infer.check(y.sizes() == x.sizes() && (y.dtype() == kInt64 || y.dtype() == kInt32),
                      "expected class numbers of dtype int64 or int32 and shape ", x.sizes(),
                      ", got ", y.dtype(), " of shape ", y.sizes());
          infer.output({x.size(0)}, wide_dtype(x.dtype()));
        },
    .reference =
        [](Args in, const NoAttrs&) {
          const Tensor x = to(*in[0], wide_dtype(in[0]->dtype()));
          const Pairs pairs(x, *in[1]);
          return Tensors{sum(clamp_min(pairs.excess, 0) * pairs.counts, {1, 2}) * share(x)};
        },
    .vjp =
        [](Vjp& vjp, const NoAttrs&) {
          vjp.set(0,
                  apply(multilabel_margin_backward_op, {vjp.grad(), vjp.input(0), vjp.input(1)}));
        },
    .saves = {in(0) | in(1)},
});

constinit OpDef<NoAttrs> multilabel_margin_backward_op = define(Op<NoAttrs>{
    .name = "multilabel_margin_loss_backward",
    .inputs = {"grad", "input", "target"},
    .internal = true,
    .infer = [](Infer& infer, const NoAttrs&) { infer.output(infer[1].sizes(), infer[1].dtype()); },
    .reference =
        [](Args in, const NoAttrs&) {
          const Tensor x = to(*in[1], wide_dtype(in[1]->dtype()));
          const Pairs pairs(x, *in[2]);
          const Tensor active = to(pairs.excess > 0, x.dtype()) * pairs.counts;
          const Tensor rest = sum(active, {1});
          const Tensor slopes = scatter_add(rest, 1, pairs.place, -sum(active, {2}));
          const Tensor result = slopes * unsqueeze(*in[0], 1) * share(x);
          return Tensors{contiguous(to(result, in[1]->dtype()))};
        },
    .gradient = Gradient::by_reference,
});

void register_multilabel_margin(OpRegistry& registry) {
  registry.add(multilabel_margin_op);
  registry.add(multilabel_margin_backward_op);
}

Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  constexpr std::string_view op = "multilabel_margin_loss";
  if (is_autocast_enabled())
    return autocast_call(
        op, Autocast::full,
        [&](const Tensor& x) { return multilabel_margin_loss(x, target, reduction); }, input);
  reduction.kind(op);
  if (input.dim() == 0 && target.dim() == 0)
    return multilabel_margin_loss(unsqueeze(input, 0), unsqueeze(target, 0), reduction);
  check((input.dim() == 1 || input.dim() == 2) && input.size(-1) > 0, op,
        ": expected scores (N, C) or (C) of at least one class, got shape ", input.sizes());
  check(target.sizes() == input.sizes(), op, ": expected a target of shape ", input.sizes(),
        ", got ", target.sizes());
  const bool batched = input.dim() == 2;
  const Tensor losses =
      batched
          ? apply(multilabel_margin_op, {input, target})
          : squeeze(apply(multilabel_margin_op, {unsqueeze(input, 0), unsqueeze(target, 0)}), {0});
  return to(reduce_loss(op, losses, reduction), input.dtype());
}

}  // namespace tensora

// Registers nothing: functions of other ops.
#include "tensora/ops/loss/margins.h"

#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/index/index_select.h"
#include "tensora/ops/loss/elementwise.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/p_norm.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

Tensor distance(const Tensor& a, const Tensor& b, double p, double eps) {
  return norm(a - b + eps, p, {-1});
}

}  // namespace

Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             double margin, Reduction reduction) {
  constexpr std::string_view op = "cosine_embedding_loss";
  if (is_autocast_enabled())
    return autocast_call(
        op, Autocast::full,
        [&](const Tensor& a, const Tensor& b) {
          return cosine_embedding_loss(a, b, target, margin, reduction);
        },
        input1, input2);
  constexpr double kEps = 1e-12;
  check(target.dim() <= 1, op, ": expected a target of at most one dim, got shape ",
        target.sizes());
  for (const Tensor* input : {&input1, &input2})
    check(input->dim() == target.dim() + 1, op, ": expected inputs of ", target.dim() + 1,
          " dims for a target of shape ", target.sizes(), ", got ", input->sizes());
  return called_as(op, [&] {
    const auto dot = [](const Tensor& a, const Tensor& b) { return sum(a * b, {-1}); };
    const Tensor lengths = (dot(input1, input1) + kEps) * (dot(input2, input2) + kEps);
    const Tensor cosine = dot(input1, input2) / sqrt(lengths);
    const Tensor apart = clamp_min(cosine - margin, 0);
    const Tensor losses =
        where(target == 1, 1 - cosine, where(target == -1, apart, zeros_like(apart)));
    return reduce_loss(op, losses, reduction);
  });
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap, Reduction reduction) {
  constexpr std::string_view op = "triplet_margin_loss";
  if (is_autocast_enabled())
    return autocast_call(
        op, Autocast::full,
        [&](const Tensor& a, const Tensor& b, const Tensor& c) {
          return triplet_margin_loss(a, b, c, margin, p, eps, swap, reduction);
        },
        anchor, positive, negative);
  check_as<ValueError>(margin > 0, op, ": margin must be greater than 0, got ", margin);
  check(anchor.dim() == positive.dim() && anchor.dim() == negative.dim(), op,
        ": expected inputs of the same number of dims, got ", anchor.sizes(), ", ",
        positive.sizes(), " and ", negative.sizes());
  return called_as(op, [&] {
    const Tensor near = distance(anchor, positive, p, eps);
    Tensor far = distance(anchor, negative, p, eps);
    if (swap) far = minimum(far, distance(positive, negative, p, eps));
    return reduce_loss(op, clamp_min(near - far + margin, 0), reduction);
  });
}

Tensor multi_margin_loss(const Tensor& input, const Tensor& target, double p, double margin,
                         const Tensor& weight, Reduction reduction) {
  constexpr std::string_view op = "multi_margin_loss";
  if (is_autocast_enabled())
    return autocast_call(
        op, Autocast::full,
        [&](const Tensor& x, const Tensor& w) {
          return multi_margin_loss(x, target, p, margin, w, reduction);
        },
        input, weight);
  reduction.kind(op);
  check_as<ValueError>(p == 1 || p == 2, op, ": p must be 1 or 2, got ", p);
  if (input.dim() == 0)
    return multi_margin_loss(unsqueeze(input, 0), target, p, margin, weight, reduction);
  check((input.dim() == 1 || input.dim() == 2) && input.size(-1) > 0, op,
        ": expected scores (N, C) or (C) of at least one class, got shape ", input.sizes());
  const bool batched = input.dim() == 2;
  const Shape wanted = batched ? Shape{input.size(0)} : Shape{};
  check(target.sizes() == wanted || (!batched && target.sizes() == Shape{1}), op,
        ": expected a target of shape ", wanted, ", got ", target.sizes());
  const int64_t classes = input.size(-1);
  check_as<ValueError>(!weight.defined() || weight.dim() == 1, op,
                       ": expected a weight of one dim, got shape ",
                       weight.defined() ? weight.sizes() : Shape());
  if (weight.defined())
    check(weight.sizes() == Shape{classes}, op, ": expected a weight for each of ", classes,
          " classes, got shape ", weight.sizes());
  check(target.dtype() == kInt64 || target.dtype() == kInt32, op,
        ": expected class numbers of dtype int64 or int32, got ", target.dtype());
  return called_as(op, [&] {
    const Tensor x = batched ? input : unsqueeze(input, 0);
    const Tensor y = reshape(to(target, kInt64), {x.size(0), 1});
    const Tensor excess = clamp_min(x - gather(x, 1, y) + margin, 0);
    Tensor terms = p == 1 ? excess : excess * excess;
    if (weight.defined()) terms = terms * reshape(index_select(weight, 0, ravel(y)), y.sizes());
    const Tensor own = arange(classes, {.device = x.device()}) == y;
    const Tensor losses =
        sum(where(own, zeros_like(terms), terms), {1}) / static_cast<double>(classes);
    return reduce_loss(op, batched ? losses : squeeze(losses, {0}), reduction);
  });
}

Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                                   Reduction reduction) {
  constexpr std::string_view op = "multilabel_soft_margin_loss";
  if (is_autocast_enabled())
    return autocast_call(
        op, {Autocast::as_is, Autocast::full},
        [&](const Tensor& x, const Tensor& y, const Tensor& w) {
          return multilabel_soft_margin_loss(x, y, w, reduction);
        },
        input, target, weight);
  check(input.dim() >= 1, op, ": expected a dim of classes, got a number");
  return called_as(op, [&] {
    const std::vector<Tensor> both = broadcast_tensors({input, target});
    const Tensor each = binary_cross_entropy_with_logits(both[0], both[1], weight, Reduction::none);
    return reduce_loss(op, sum(each, {input.dim() - 1}) / input.size(-1), reduction);
  });
}

}  // namespace tensora

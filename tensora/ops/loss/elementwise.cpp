// Registers nothing: functions of other ops.
#include "tensora/ops/loss/elementwise.h"

#include <cmath>
#include <numbers>

#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/op.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/loss/expect.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/describe.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

using namespace functors;

// Calls `losses` so that errors of the ops within carry the loss's name, and reduces what it gives.
template <class Losses>
Tensor reduced(std::string_view op, Reduction reduction, const Losses& losses) {
  return called_as(op, [&] { return reduce_loss(op, losses(), reduction); });
}

void check_same_shape(std::string_view op, const Tensor& input, const Tensor& target) {
  check(input.sizes() == target.sizes(), op, ": target must have the shape of input, ",
        input.sizes(), ", got ", target.sizes());
}

void expect(const Tensor& input, Expected what) {
  if (!input.is_floating_point()) return;  // refused by the op that follows
  const no_grad silent;
  apply(expect_op, {input.detach()}, {what});
}

Tensor ones_or(const Tensor& weight) { return weight.defined() ? weight : wrap_number(1.0); }

}  // namespace

Reduction::Kind Reduction::kind(std::string_view op) const {
  check(known_, op, ": reduction must be \"none\", \"mean\" or \"sum\", got \"", text_, "\"");
  return kind_;
}

Tensor reduce_loss(std::string_view op, const Tensor& losses, Reduction reduction) {
  switch (reduction.kind(op)) {
    case Reduction::none:
      return losses;
    case Reduction::mean:
      return mean(losses);
    case Reduction::sum:
      return sum(losses);
    default:
      fail(op, ": reduction must be \"none\", \"mean\" or \"sum\", got \"batchmean\"");
  }
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return reduced("mse_loss", reduction, [&] {
    return apply(pointwise_op<SquaredError>(), {input, target});
  });
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return reduced("l1_loss", reduction, [&] {
    const bool floats = is_floating_point(promote_types(input.dtype(), target.dtype()));
    return floats ? apply(pointwise_op<AbsoluteError>(), {input, target}) : abs(input - target);
  });
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, Reduction reduction, double beta) {
  check(beta >= 0, "smooth_l1_loss: beta must not be negative, got ", beta);
  return reduced("smooth_l1_loss", reduction, [&] {
    if (beta == 0) return apply(pointwise_op<AbsoluteError>(), {input, target});
    return apply(pointwise_op<SmoothL1>(), {input, target}, {{}, beta});
  });
}

Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction, double delta) {
  check(delta > 0, "huber_loss: delta must be greater than 0, got ", delta);
  return reduced("huber_loss", reduction, [&] {
    return apply(pointwise_op<Huber>(), {input, target}, {{}, delta});
  });
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                            Reduction reduction) {
  check_same_shape("binary_cross_entropy", input, target);
  return reduced("binary_cross_entropy", reduction, [&] {
    expect(input, Expected::probability);
    return apply(pointwise_op<BinaryEntropy>(), {input, target, ones_or(weight)});
  });
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight, Reduction reduction,
                                        const Tensor& pos_weight) {
  check_same_shape("binary_cross_entropy_with_logits", input, target);
  return reduced("binary_cross_entropy_with_logits", reduction, [&] {
    const Tensor losses =
        apply(pointwise_op<BinaryEntropyOfLogit>(), {input, target, ones_or(pos_weight)});
    return weight.defined() ? losses * weight : losses;
  });
}

Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction, bool log_target) {
  const auto losses = [&] {
    return log_target ? apply(pointwise_op<DivergenceOfLogs>(), {input, target})
                      : apply(pointwise_op<Divergence>(), {input, target});
  };
  if (reduction.kind("kl_div") != Reduction::batchmean) return reduced("kl_div", reduction, losses);
  const Tensor total = reduced("kl_div", Reduction::sum, losses);
  return input.dim() == 0 ? total : total / input.size(0);
}

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input, bool full,
                        double eps, Reduction reduction) {
  return reduced("poisson_nll_loss", reduction, [&] {
    const Tensor losses = log_input ? apply(pointwise_op<PoissonNllOfLog>(), {input, target})
                                    : apply(pointwise_op<PoissonNll>(), {input, target}, {{}, eps});
    if (!full) return losses;
    const Tensor stirling =
        target * log(target) - target + log(target * (2 * std::numbers::pi)) * 0.5;
    return losses + where(target > 1, stirling, 0);
  });
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var, bool full,
                         double eps, Reduction reduction) {
  check(eps > 0, "gaussian_nll_loss: eps must be greater than 0, got ", eps);
  Tensor spread = var;
  if (var.dim() > 0 && var.sizes() != input.sizes()) {
    Shape shorter = input.sizes();
    if (!shorter.empty()) shorter.resize(shorter.size() - 1);
    if (var.sizes() == shorter) spread = unsqueeze(var, -1);
    Shape single = input.sizes();
    if (!single.empty()) single[single.size() - 1] = 1;
    check(spread.sizes() == single, "gaussian_nll_loss: var must have the shape of input, ",
          input.sizes(), ", or that without its last dim or with 1 there, got ", var.sizes());
  }
  return reduced("gaussian_nll_loss", reduction, [&] {
    expect(spread, Expected::variance);
    const Tensor losses = apply(pointwise_op<GaussianNll>(), {input, target, spread}, {{}, eps});
    return full ? losses + 0.5 * std::log(2 * std::numbers::pi) : losses;
  });
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, double var, bool full,
                         double eps, Reduction reduction) {
  const Tensor spread = tensora::full({}, var, {.dtype = input.dtype(), .device = input.device()});
  return gaussian_nll_loss(input, target, spread, full, eps, reduction);
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin,
                            Reduction reduction) {
  return reduced("hinge_embedding_loss", reduction, [&] {
    return apply(pointwise_op<HingeEmbedding>(), {input, target}, {{}, margin});
  });
}

Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           double margin, Reduction reduction) {
  check(input1.dim() == input2.dim() && input1.dim() == target.dim(),
        "margin_ranking_loss: all tensors must have the same number of dims, got ", input1.sizes(),
        ", ", input2.sizes(), " and ", target.sizes());
  return reduced("margin_ranking_loss", reduction, [&] {
    return apply(pointwise_op<MarginRanking>(), {input1, input2, target}, {{}, margin});
  });
}

Tensor soft_margin_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return reduced("soft_margin_loss", reduction, [&] {
    return apply(pointwise_op<SoftMargin>(), {input, target});
  });
}

}  // namespace tensora

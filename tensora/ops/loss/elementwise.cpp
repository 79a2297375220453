// Registers nothing: functions of other ops.
#include "tensora/ops/loss/elementwise.h"

#include <cmath>
#include <numbers>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/autocast_call.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/loss/expect.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/pointwise/describe.h"
#include "tensora/ops/reduce/sum.h"
#include "tensora/ops/shape/reshape.h"

namespace tensora {
namespace {

using namespace functors;

// Calls `losses` with the inputs so that errors of the ops within carry the loss's name, and
// reduces what it gives. Under autocast losses are computed in float32.
template <class Losses, class... Inputs>
Tensor reduced(std::string_view op, AutocastPolicy policy, Reduction reduction,
               const Losses& losses, const Inputs&... inputs) {
  return called_as(op, [&] {
    const auto compute = [&](const auto&... cast) {
      return reduce_loss(op, losses(cast...), reduction);
    };
    return autocast_call(op, policy, compute, inputs...);
  });
}
template <class Losses, class... Inputs>
Tensor reduced(std::string_view op, Reduction reduction, const Losses& losses,
               const Inputs&... inputs) {
  return reduced(op, Autocast::full, reduction, losses, inputs...);
}

void check_same_shape(std::string_view op, const Tensor& input, const Tensor& target) {
  check_as<ValueError>(input.sizes() == target.sizes(), op,
                       ": target must have the shape of input, ", input.sizes(), ", got ",
                       target.sizes());
}

void expect(const Tensor& input, Expected what) {
  if (!input.is_floating_point()) return;  // refused by the op that follows
  const no_grad silent;
  apply(expect_op, {input.detach()}, {what});
}

// The variance of gaussian_nll_loss in a shape that broadcasts to the input.
Tensor variance_beside(const Tensor& input, const Tensor& var) {
  Shape shorter = input.sizes();
  if (!shorter.empty()) shorter.resize(shorter.size() - 1);
  if (input.dim() > 0 && var.sizes() == shorter) return unsqueeze(var, -1);
  bool fits = var.dim() == input.dim();
  int shared = 0;  // dims with one variance for all elements
  for (int64_t dim = 0; fits && dim < input.dim(); ++dim) {
    if (var.size(dim) == input.size(dim)) continue;
    fits = var.size(dim) == 1;
    ++shared;
  }
  check_as<ValueError>(fits && shared <= 1, "gaussian_nll_loss: var must have the shape of input, ",
                       input.sizes(), ", or that without its last dim or with 1 for one dim, got ",
                       var.sizes());
  return var;
}

Tensor ones_or(const Tensor& weight) { return weight.defined() ? weight : wrap_number(1.0); }

}  // namespace

Reduction::Kind Reduction::kind(std::string_view op) const {
  check_as<ValueError>(known_, op, ": reduction must be \"none\", \"mean\" or \"sum\", got \"",
                       text_, "\"");
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
      throw ValueError(
          concat(op, ": reduction must be \"none\", \"mean\" or \"sum\", got \"batchmean\""));
  }
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  const auto losses = [](const Tensor& x, const Tensor& y) {
    return apply(pointwise_op<SquaredError>(), {x, y});
  };
  return reduced("mse_loss", reduction, losses, input, target);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  const auto losses = [](const Tensor& x, const Tensor& y) {
    const bool floats = is_floating_point(promote_types(x.dtype(), y.dtype()));
    return floats ? apply(pointwise_op<AbsoluteError>(), {x, y}) : abs(x - y);
  };
  return reduced("l1_loss", reduction, losses, input, target);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, Reduction reduction, double beta) {
  check(beta >= 0, "smooth_l1_loss: beta must not be negative, got ", beta);
  const auto losses = [&](const Tensor& x, const Tensor& y) {
    if (beta == 0) return apply(pointwise_op<AbsoluteError>(), {x, y});
    return apply(pointwise_op<SmoothL1>(), {x, y}, {{}, beta});
  };
  return reduced("smooth_l1_loss", reduction, losses, input, target);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction, double delta) {
  check(delta > 0, "huber_loss: delta must be greater than 0, got ", delta);
  const auto losses = [&](const Tensor& x, const Tensor& y) {
    return apply(pointwise_op<Huber>(), {x, y}, {{}, delta});
  };
  return reduced("huber_loss", reduction, losses, input, target);
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                            Reduction reduction) {
  check_same_shape("binary_cross_entropy", input, target);
  const auto losses = [](const Tensor& x, const Tensor& y, const Tensor& w) {
    expect(x, Expected::probability);
    expect(y, Expected::target_probability);
    return apply(pointwise_op<BinaryEntropy>(), {x, y, ones_or(w)});
  };
  return reduced("binary_cross_entropy", {Autocast::full, Autocast::refused}, reduction, losses,
                 input, target, weight);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight, Reduction reduction,
                                        const Tensor& pos_weight) {
  check_same_shape("binary_cross_entropy_with_logits", input, target);
  const auto losses = [](const Tensor& x, const Tensor& y, const Tensor& w, const Tensor& pos) {
    const Tensor each = apply(pointwise_op<BinaryEntropyOfLogit>(), {x, y, ones_or(pos)});
    return w.defined() ? each * w : each;
  };
  return reduced("binary_cross_entropy_with_logits", reduction, losses, input, target, weight,
                 pos_weight);
}

Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction, bool log_target) {
  check(input.is_floating_point() && target.is_floating_point(),
        "kl_div: expected floating-point tensors, got ", input.dtype(), " and ", target.dtype());
  const auto losses = [&](const Tensor& x, const Tensor& y) {
    return log_target ? apply(pointwise_op<DivergenceOfLogs>(), {x, y})
                      : apply(pointwise_op<Divergence>(), {x, y});
  };
  if (reduction.kind("kl_div") != Reduction::batchmean)
    return reduced("kl_div", reduction, losses, input, target);
  const Tensor total = reduced("kl_div", Reduction::sum, losses, input, target);
  return input.dim() == 0 ? total : total / input.size(0);
}

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input, bool full,
                        double eps, Reduction reduction) {
  if (!is_differentiable(input.dtype()))
    return poisson_nll_loss(to(input, default_dtype()), target, log_input, full, eps, reduction);
  const auto losses = [&](const Tensor& x, const Tensor& y) {
    Tensor each = log_input ? apply(pointwise_op<PoissonNllOfLog>(), {x, y})
                            : apply(pointwise_op<PoissonNll>(), {x, y}, {{}, eps});
    if (!full) return each;
    const Tensor stirling = y * log(y) - y + log(y * (2 * std::numbers::pi)) * 0.5;
    return to(each + where(y > 1, stirling, 0), each.dtype());
  };
  return reduced("poisson_nll_loss", reduction, losses, input, target);
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var, bool full,
                         double eps, Reduction reduction) {
  check(eps > 0, "gaussian_nll_loss: eps must be greater than 0, got ", eps);
  const Tensor spread = var.dim() == 0 ? var : variance_beside(input, var);
  const auto losses = [&](const Tensor& x, const Tensor& y, const Tensor& variance) {
    expect(variance, Expected::variance);
    const Tensor each = apply(pointwise_op<GaussianNll>(), {x, y, variance}, {{}, eps});
    return full ? each + 0.5 * std::log(2 * std::numbers::pi) : each;
  };
  return reduced("gaussian_nll_loss", {Autocast::as_is, Autocast::full}, reduction, losses, input,
                 target, spread);
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, double var, bool full,
                         double eps, Reduction reduction) {
  const Tensor spread = tensora::full({}, var, {.dtype = input.dtype(), .device = input.device()});
  return gaussian_nll_loss(input, target, spread, full, eps, reduction);
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin,
                            Reduction reduction) {
  const auto losses = [&](const Tensor& x, const Tensor& y) {
    return apply(pointwise_op<HingeEmbedding>(), {x, y}, {{}, margin});
  };
  return reduced("hinge_embedding_loss", reduction, losses, input, target);
}

Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           double margin, Reduction reduction) {
  check(input1.dim() == input2.dim() && input1.dim() == target.dim(),
        "margin_ranking_loss: all tensors must have the same number of dims, got ", input1.sizes(),
        ", ", input2.sizes(), " and ", target.sizes());
  // The margin is a float, and so is the loss of integers.
  if (!is_differentiable(promote_types(input1.dtype(), input2.dtype())))
    return margin_ranking_loss(to(input1, default_dtype()), input2, target, margin, reduction);
  const auto losses = [&](const Tensor& x1, const Tensor& x2, const Tensor& y) {
    return apply(pointwise_op<MarginRanking>(), {x1, x2, y}, {{}, margin});
  };
  return reduced("margin_ranking_loss", reduction, losses, input1, input2, target);
}

Tensor soft_margin_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  const auto losses = [](const Tensor& x, const Tensor& y) {
    return apply(pointwise_op<SoftMargin>(), {x, y});
  };
  return reduced("soft_margin_loss", reduction, losses, input, target);
}

}  // namespace tensora

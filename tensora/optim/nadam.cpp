#include "tensora/optim/nadam.h"

#include <cmath>

#include "tensora/ops.h"
#include "tensora/ops/operators.h"
#include "tensora/optim/step_list.h"

namespace tensora::optim {
namespace {

Value::Dict dict_of(const NAdamOptions& o) {
  return with_flags({{"lr", o.lr},
                     {"betas", Value::List{o.betas[0], o.betas[1]}},
                     {"eps", o.eps},
                     {"weight_decay", o.weight_decay},
                     {"momentum_decay", o.momentum_decay},
                     {"decoupled_weight_decay", o.decoupled_weight_decay},
                     {"maximize", o.maximize},
                     {"foreach", {}},
                     {"capturable", o.capturable},
                     {"differentiable", false}},
                    {{"master_weights", o.master_weights}});
}

void check_options(const std::string& name, const ParamGroup& group) {
  for (const char* option : {"lr", "eps", "weight_decay", "momentum_decay"})
    check_range(name, group, option);
  check_betas(name, group);
}

// The momentum of this step, or 1 if the step is skipped.
Tensor factor_on_device(const StepList& list, const UpdateListAttrs& attrs,
                        const GradScaling& scaling) {
  const Tensor base = full_like(list.step_on_device, 0.96);
  const Tensor momentum = (1 - pow(base, list.step_on_device * attrs.decay) * 0.5) * attrs.beta1;
  if (!scaling.found_inf.defined()) return momentum;
  return where(scaling.found_inf.reshape({}) != 0, ones_like(momentum), momentum);
}

}  // namespace

NAdam::NAdam(Parameters params, const NAdamOptions& options)
    : Optimizer("NAdam", std::move(params), dict_of(options), check_options) {}

void NAdam::update(ParamGroup& group) {
  UpdateListAttrs attrs{.layout = {},
                        .rule = UpdateRule::nadam,
                        .lr = group.lr(),
                        .beta1 = group.number("betas", 0),
                        .beta2 = group.number("betas", 1),
                        .eps = group.number("eps"),
                        .weight_decay = group.number("weight_decay"),
                        .decay = group.number("momentum_decay"),
                        .decoupled = group.flag("decoupled_weight_decay"),
                        .maximize = group.flag("maximize")};
  const StatePlan plan{.states = {"exp_avg", "exp_avg_sq"}, .multiplied = true};
  const std::vector<StepList> lists = gather(*this, group, scaling(), plan);
  for (const StepList& list : lists) {
    if (list.product_on_device.defined()) {
      list.product_on_device.mul_(factor_on_device(list, attrs, scaling()));
    } else {
      attrs.step = list.step;
      const double faded = std::pow(0.96, static_cast<double>(list.step) * attrs.decay);
      attrs.product = list.product * static_cast<float>(attrs.beta1 * (1 - 0.5 * faded));
      if (!is_skipped(scaling()))
        for (const Tensor& param : list.params)
          *state(param).at("mu_product").to_tensor().data_ptr<float>() =
              static_cast<float>(attrs.product);
    }
    run_list(list, *this, plan, scaling(), attrs);
  }
  finish(lists, *this, scaling());
}

void NAdam::check_state(const Tensor& param, const Value& state) const {
  check_shapes(*this, param, state, {"exp_avg", "exp_avg_sq", "master_param"});
}

}  // namespace tensora::optim

#include "tensora/optim/adam.h"

#include "tensora/optim/step_list.h"

namespace tensora::optim {
namespace {

Value::Dict dict_of(const AdamOptions& o) {
  return with_flags({{"lr", o.lr},
                     {"betas", Value::List{o.betas[0], o.betas[1]}},
                     {"eps", o.eps},
                     {"weight_decay", o.weight_decay},
                     {"amsgrad", o.amsgrad},
                     {"maximize", o.maximize},
                     {"foreach", {}},
                     {"capturable", o.capturable},
                     {"differentiable", false},
                     {"fused", {}},
                     {"decoupled_weight_decay", o.decoupled_weight_decay}},
                    {{"master_weights", o.master_weights}, {"narrow_states", o.narrow_states}});
}

void check_options(const std::string& name, const ParamGroup& group) {
  for (const char* option : {"lr", "eps", "weight_decay"}) check_range(name, group, option);
  check_betas(name, group);
}

}  // namespace

Adam::Adam(std::string name, Parameters params, const AdamOptions& options)
    : Optimizer(std::move(name), std::move(params), dict_of(options), check_options) {}
Adam::Adam(Parameters params, const AdamOptions& options)
    : Adam("Adam", std::move(params), options) {}

void Adam::update(ParamGroup& group) {
  AdamListAttrs attrs{.layout = {},
                      .lr = group.lr(),
                      .beta1 = group.number("betas", 0),
                      .beta2 = group.number("betas", 1),
                      .eps = group.number("eps"),
                      .weight_decay = group.number("weight_decay"),
                      .decoupled = group.flag("decoupled_weight_decay"),
                      .amsgrad = group.flag("amsgrad"),
                      .maximize = group.flag("maximize")};
  StatePlan plan{.states = {"exp_avg", "exp_avg_sq"}};
  if (attrs.amsgrad) plan.states.push_back("max_exp_avg_sq");
  step_lists(*this, group, scaling(), plan, attrs);
}

void Adam::check_state(const Tensor& param, const Value& state) const {
  check_shapes(*this, param, state, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "master_param"});
}

}  // namespace tensora::optim

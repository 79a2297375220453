#include "tensora/optim/lion.h"

#include "tensora/optim/step_list.h"

namespace tensora::optim {
namespace {

Value::Dict dict_of(const LionOptions& o) {
  return with_flags({{"lr", o.lr},
                     {"betas", Value::List{o.betas[0], o.betas[1]}},
                     {"weight_decay", o.weight_decay},
                     {"maximize", o.maximize},
                     {"capturable", o.capturable}},
                    {{"master_weights", o.master_weights}});
}

void check_options(const std::string& name, const ParamGroup& group) {
  for (const char* option : {"lr", "weight_decay"}) check_range(name, group, option);
  check_betas(name, group);
}

}  // namespace

Lion::Lion(Parameters params, const LionOptions& options)
    : Optimizer("Lion", std::move(params), dict_of(options), check_options) {}

void Lion::update(ParamGroup& group) {
  const UpdateListAttrs attrs{.layout = {},
                              .rule = UpdateRule::lion,
                              .lr = group.lr(),
                              .beta1 = group.number("betas", 0),
                              .beta2 = group.number("betas", 1),
                              .weight_decay = group.number("weight_decay"),
                              .maximize = group.flag("maximize")};
  const StatePlan plan{.states = {"exp_avg"}, .counted = false};
  step_lists(*this, group, scaling(), plan, attrs);
}

void Lion::check_state(const Tensor& param, const Value& state) const {
  check_shapes(*this, param, state, {"exp_avg", "master_param"});
}

}  // namespace tensora::optim

#include "tensora/optim/rmsprop.h"

#include "tensora/optim/step_list.h"

namespace tensora::optim {
namespace {

Value::Dict dict_of(const RMSpropOptions& o) {
  return with_flags({{"lr", o.lr},
                     {"momentum", o.momentum},
                     {"alpha", o.alpha},
                     {"eps", o.eps},
                     {"centered", o.centered},
                     {"weight_decay", o.weight_decay},
                     {"capturable", o.capturable},
                     {"foreach", {}},
                     {"maximize", o.maximize},
                     {"differentiable", false}},
                    {{"master_weights", o.master_weights}});
}

void check_options(const std::string& name, const ParamGroup& group) {
  for (const char* option : {"lr", "eps", "momentum", "weight_decay", "alpha"})
    check_range(name, group, option);
}

}  // namespace

RMSprop::RMSprop(Parameters params, const RMSpropOptions& options)
    : Optimizer("RMSprop", std::move(params), dict_of(options), check_options) {}

void RMSprop::update(ParamGroup& group) {
  const UpdateListAttrs attrs{.layout = {},
                              .rule = UpdateRule::rmsprop,
                              .lr = group.lr(),
                              .beta2 = group.number("alpha"),
                              .eps = group.number("eps"),
                              .weight_decay = group.number("weight_decay"),
                              .momentum = group.number("momentum"),
                              .centered = group.flag("centered"),
                              .maximize = group.flag("maximize")};
  StatePlan plan{.states = {"square_avg"}};
  if (attrs.centered) plan.states.push_back("grad_avg");
  if (attrs.momentum > 0) plan.states.push_back("momentum_buffer");
  step_lists(*this, group, scaling(), plan, attrs);
}

void RMSprop::check_state(const Tensor& param, const Value& state) const {
  check_shapes(*this, param, state, {"square_avg", "grad_avg", "momentum_buffer", "master_param"});
}

}  // namespace tensora::optim

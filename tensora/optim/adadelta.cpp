#include "tensora/optim/adadelta.h"

#include "tensora/optim/step_list.h"

namespace tensora::optim {
namespace {

Value::Dict dict_of(const AdadeltaOptions& o) {
  return with_flags({{"lr", o.lr},
                     {"rho", o.rho},
                     {"eps", o.eps},
                     {"weight_decay", o.weight_decay},
                     {"maximize", o.maximize},
                     {"capturable", o.capturable},
                     {"foreach", {}},
                     {"differentiable", false}},
                    {{"master_weights", o.master_weights}});
}

void check_options(const std::string& name, const ParamGroup& group) {
  for (const char* option : {"lr", "eps", "weight_decay"}) check_range(name, group, option);
  check_range(name, group, "rho", 0, 1);
}

}  // namespace

Adadelta::Adadelta(Parameters params, const AdadeltaOptions& options)
    : Optimizer("Adadelta", std::move(params), dict_of(options), check_options) {}

void Adadelta::update(ParamGroup& group) {
  const UpdateListAttrs attrs{.layout = {},
                              .rule = UpdateRule::adadelta,
                              .lr = group.lr(),
                              .beta2 = group.number("rho"),
                              .eps = group.number("eps"),
                              .weight_decay = group.number("weight_decay"),
                              .maximize = group.flag("maximize")};
  step_lists(*this, group, scaling(), {.states = {"square_avg", "acc_delta"}}, attrs);
}

void Adadelta::check_state(const Tensor& param, const Value& state) const {
  check_shapes(*this, param, state, {"square_avg", "acc_delta", "master_param"});
}

}  // namespace tensora::optim

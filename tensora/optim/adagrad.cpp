#include "tensora/optim/adagrad.h"

#include "tensora/optim/step_list.h"

namespace tensora::optim {
namespace {

Value::Dict dict_of(const AdagradOptions& o) {
  return with_flags({{"lr", o.lr},
                     {"lr_decay", o.lr_decay},
                     {"eps", o.eps},
                     {"weight_decay", o.weight_decay},
                     {"initial_accumulator_value", o.initial_accumulator_value},
                     {"foreach", {}},
                     {"maximize", o.maximize},
                     {"differentiable", false},
                     {"fused", {}}},
                    {{"capturable", o.capturable}, {"master_weights", o.master_weights}});
}

void check_options(const std::string& name, const ParamGroup& group) {
  for (const char* option : {"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"})
    check_range(name, group, option);
}

}  // namespace

Adagrad::Adagrad(Parameters params, const AdagradOptions& options)
    : Optimizer("Adagrad", std::move(params), dict_of(options), check_options) {}

void Adagrad::update(ParamGroup& group) {
  const UpdateListAttrs attrs{.layout = {},
                              .rule = UpdateRule::adagrad,
                              .lr = group.lr(),
                              .eps = group.number("eps"),
                              .weight_decay = group.number("weight_decay"),
                              .decay = group.number("lr_decay"),
                              .maximize = group.flag("maximize")};
  const StatePlan plan{.states = {"sum"},
                       .initial_value = group.number("initial_accumulator_value")};
  step_lists(*this, group, scaling(), plan, attrs);
}

void Adagrad::check_state(const Tensor& param, const Value& state) const {
  check_shapes(*this, param, state, {"sum", "master_param"});
}

}  // namespace tensora::optim

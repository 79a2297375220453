#include "tensora/optim/adamax.h"

#include "tensora/optim/step_list.h"

namespace tensora::optim {
namespace {

Value::Dict dict_of(const AdamaxOptions& o) {
  return with_flags({{"lr", o.lr},
                     {"betas", Value::List{o.betas[0], o.betas[1]}},
                     {"eps", o.eps},
                     {"weight_decay", o.weight_decay},
                     {"foreach", {}},
                     {"maximize", o.maximize},
                     {"differentiable", false},
                     {"capturable", o.capturable}},
                    {{"master_weights", o.master_weights}});
}

void check_options(const std::string& name, const ParamGroup& group) {
  for (const char* option : {"lr", "eps", "weight_decay"}) check_range(name, group, option);
  check_betas(name, group);
}

}  // namespace

Adamax::Adamax(Parameters params, const AdamaxOptions& options)
    : Optimizer("Adamax", std::move(params), dict_of(options), check_options) {}

void Adamax::update(ParamGroup& group) {
  const UpdateListAttrs attrs{.layout = {},
                              .rule = UpdateRule::adamax,
                              .lr = group.lr(),
                              .beta1 = group.number("betas", 0),
                              .beta2 = group.number("betas", 1),
                              .eps = group.number("eps"),
                              .weight_decay = group.number("weight_decay"),
                              .maximize = group.flag("maximize")};
  step_lists(*this, group, scaling(), {.states = {"exp_avg", "exp_inf"}}, attrs);
}

void Adamax::check_state(const Tensor& param, const Value& state) const {
  check_shapes(*this, param, state, {"exp_avg", "exp_inf", "master_param"});
}

}  // namespace tensora::optim

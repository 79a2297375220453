#include "tensora/optim/sgd.h"

#include "tensora/base/check.h"
#include "tensora/optim/step_list.h"

namespace tensora::optim {
namespace {

Value::Dict dict_of(const SGDOptions& o) {
  return with_flags({{"lr", o.lr},
                     {"momentum", o.momentum},
                     {"dampening", o.dampening},
                     {"weight_decay", o.weight_decay},
                     {"nesterov", o.nesterov},
                     {"maximize", o.maximize},
                     {"foreach", {}},
                     {"differentiable", false},
                     {"fused", {}}},
                    {{"capturable", o.capturable}, {"master_weights", o.master_weights}});
}

void check_options(const std::string& name, const ParamGroup& group) {
  for (const char* option : {"lr", "momentum", "weight_decay"}) check_range(name, group, option);
  check(!group.flag("nesterov") || (group.number("momentum") > 0 && group.number("dampening") == 0),
        name, ": nesterov needs a momentum and no dampening, got ", group.number("momentum"),
        " and ", group.number("dampening"));
}

}  // namespace

SGD::SGD(Parameters params, const SGDOptions& options)
    : Optimizer("SGD", std::move(params), dict_of(options), check_options) {}

void SGD::update(ParamGroup& group) {
  SgdListAttrs attrs{.layout = {},
                     .lr = group.lr(),
                     .momentum = group.number("momentum"),
                     .dampening = group.number("dampening"),
                     .weight_decay = group.number("weight_decay"),
                     .nesterov = group.flag("nesterov"),
                     .maximize = group.flag("maximize")};
  StatePlan plan{.states = {}, .counted = false};
  if (attrs.momentum != 0) plan.states = {"momentum_buffer"};
  // Rows without a gradient would not change.
  const bool by_rows = attrs.momentum == 0 && attrs.weight_decay == 0 &&
                       !scaling().found_inf.defined() && !scaling().grad_scale.defined() &&
                       !group.flag("master_weights");
  plan.sparse = by_rows ? SparseGradients::by_rows : SparseGradients::densify;
  if (by_rows)
    for (const SparseRows& part : sparse_rows_of(group))
      part.param.index_add_(0, part.rows, part.values, attrs.maximize ? attrs.lr : -attrs.lr);
  for (const StepList& list : gather(*this, group, scaling(), plan)) {
    attrs.first = list.first;
    run_list(list, *this, plan, scaling(), attrs);
  }
}

void SGD::check_state(const Tensor& param, const Value& state) const {
  check_shapes(*this, param, state, {"momentum_buffer", "master_param"});
}

}  // namespace tensora::optim

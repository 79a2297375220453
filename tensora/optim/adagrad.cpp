#include "tensora/optim/adagrad.h"

#include "tensora/ops.h"
#include "tensora/ops/operators.h"
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

namespace {

void step_rows(Optimizer& optimizer, const SparseRows& part, const StatePlan& plan,
               const UpdateListAttrs& attrs) {
  Value& own = optimizer.state(part.param);
  if (own["sum"].is_none()) own["sum"] = zero_state(part.param).fill_(plan.initial_value);
  if (own["step"].is_none()) own["step"] = 0.0;
  const Tensor sum = own["sum"].to_tensor(), count = counter_in(optimizer, own["step"]);
  count.add_(1);
  const double rate = attrs.lr / (1 + (count.item<double>() - 1) * attrs.decay);
  const Tensor grads = part.values.to(sum.dtype());
  const Tensor sums = sum.index_select(0, part.rows) + grads * grads;
  sum.index_copy_(0, part.rows, sums);
  const Tensor change = (grads / (sums.sqrt() + attrs.eps)).to(part.param.dtype());
  part.param.index_add_(0, part.rows, change, attrs.maximize ? rate : -rate);
}

}  // namespace

void Adagrad::update(ParamGroup& group) {
  const UpdateListAttrs attrs{.layout = {},
                              .rule = UpdateRule::adagrad,
                              .lr = group.lr(),
                              .eps = group.number("eps"),
                              .weight_decay = group.number("weight_decay"),
                              .decay = group.number("lr_decay"),
                              .maximize = group.flag("maximize")};
  StatePlan plan{.states = {"sum"}, .initial_value = group.number("initial_accumulator_value")};
  // Rows without a gradient would not change.
  const bool by_rows = attrs.weight_decay == 0 && !scaling().found_inf.defined() &&
                       !scaling().grad_scale.defined() && !group.flag("master_weights");
  plan.sparse = by_rows ? SparseGradients::by_rows : SparseGradients::densify;
  if (by_rows)
    for (const SparseRows& part : sparse_rows_of(group)) step_rows(*this, part, plan, attrs);
  step_lists(*this, group, scaling(), plan, attrs);
}

void Adagrad::check_state(const Tensor& param, const Value& state) const {
  check_shapes(*this, param, state, {"sum", "master_param"});
}

}  // namespace tensora::optim

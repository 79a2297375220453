#pragma once

// Internal header: what a step over a whole list of parameters reads and writes.

#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "tensora/ops/optim/multi_tensor_op.h"
#include "tensora/optim/optimizer.h"

namespace tensora::optim {

/// Parameters that one call steps: they have a gradient, are on one device and have taken equally
/// many steps.
struct StepList {
  std::vector<Tensor> params, grads, masters;
  std::vector<Tensor> states[3];
  int64_t step = 0;       // the number of this step, counted from 1, where the host knows it
  Tensor step_on_device;  // otherwise
  Tensor lr_on_device;
  float product = 1;  // of all factors before this step, where the plan has one
  Tensor product_on_device;
  bool first = false;        // their states were made for this step
  bool has_complex = false;  // some parameters are complex
};

/// Complex tensors as real ones of their parts: steps are elementwise.
std::vector<Tensor> as_reals(std::span<const Tensor> tensors);

/// What a step does with sparse gradients.
enum class SparseGradients : uint8_t {
  refuse,
  densify,  // uses their dense form
  by_rows,  // leaves them to step_rows, if entries are rows; uses the dense form of others
};

/// Which states a parameter has, by name.
struct StatePlan {
  std::vector<const char*> states;
  bool counted = true;       // the state has a "step" too
  bool multiplied = false;   // and a "mu_product"
  double initial_value = 0;  // of the states
  SparseGradients sparse = SparseGradients::refuse;
};

// Note [Who counts the steps]
// A parameter's state holds the number of its steps as a float32 tensor of no dims, as PyTorch's
// does. Usually it is in the host's memory: counting costs nothing, and the corrections that depend
// on it are computed there. It is on the parameter's device where the host cannot know the number:
// with `capturable`, since a recorded graph is replayed without the host, and with `found_inf`,
// since only the device knows whether the step is skipped. Nothing reads it back, so it stays
// there. The parameters of a list then share one counter; those that part company, because one of
// them got no gradient, get a counter of their own.

/// The rows of a parameter whose gradient is sparse.
struct SparseRows {
  Tensor param;
  Tensor rows;    // their numbers; each once, in order
  Tensor values;  // their gradients
};
/// Those of the group that `gather` leaves out with SparseGradients::by_rows.
std::vector<SparseRows> sparse_rows_of(const ParamGroup& group);

/// The parameters of the group that have a gradient; makes missing states and counts the step.
std::vector<StepList> gather(Optimizer& optimizer, ParamGroup& group, const GradScaling& scaling,
                             const StatePlan& plan);
/// Steps all parameters of the list in one call.
template <class Attrs>
void run_list(const StepList& list, const Optimizer& optimizer, const StatePlan& plan,
              const GradScaling& scaling, const Attrs& attrs) {
  if (list.has_complex) {
    StepList reals = list;
    reals.has_complex = false;
    reals.params = as_reals(list.params);
    reals.grads = as_reals(list.grads);
    for (std::vector<Tensor>& of_name : reals.states) of_name = as_reals(of_name);
    return run_list(reals, optimizer, plan, scaling, attrs);
  }
  std::span<const Tensor> states[3];
  for (size_t k = 0; k < plan.states.size(); ++k) states[k] = list.states[k];
  run_step({.op = optimizer.name(),
            .params = list.params,
            .grads = list.grads,
            .states = {states, plan.states.size()},
            .state_names = plan.states,
            .masters = list.masters,
            .step = &list.step_on_device,
            .grad_scale = &scaling.grad_scale,
            .found_inf = &scaling.found_inf,
            .product = &list.product_on_device,
            .lr = &list.lr_on_device},
           attrs);
}
/// Whether the step of parameters in the host's memory is skipped.
bool is_skipped(const GradScaling& scaling);
/// Takes back the counts of a step that `found_inf` turned into nothing.
void finish(std::span<const StepList> lists, Optimizer& optimizer, const GradScaling& scaling);

/// Gathers the parameters of a group and steps them.
template <class Attrs>
void step_lists(Optimizer& optimizer, ParamGroup& group, const GradScaling& scaling,
                const StatePlan& plan, Attrs attrs) {
  const std::vector<StepList> lists = gather(optimizer, group, scaling, plan);
  for (const StepList& list : lists) {
    attrs.step = list.step > 0 ? list.step : 1;
    run_list(list, optimizer, plan, scaling, attrs);
  }
  finish(lists, optimizer, scaling);
}

/// Adds options that PyTorch does not have, where they are set.
Value::Dict with_flags(Value::Dict options,
                       std::initializer_list<std::pair<const char*, bool>> flags);

/// Whether a state is a number, or a real tensor of one element.
bool is_one_number(const Value& value);
/// The float32 tensor that counts in a state; a number, or a tensor of another dtype, becomes one.
/// Throws for anything else.
Tensor counter_in(const Optimizer& optimizer, Value& entry);

/// Throws unless each of these states, where it is there, is a floating-point tensor of the
/// parameter's shape, and the counters are numbers.
void check_shapes(const Optimizer& optimizer, const Tensor& param, const Value& state,
                  std::initializer_list<const char*> names);

/// Throws unless the option is at least `low`, and at most `high`.
void check_range(const std::string& optimizer, const ParamGroup& group, const char* option,
                 double low = 0, double high = std::numeric_limits<double>::infinity());
/// Throws unless both betas are at least 0 and below 1.
void check_betas(const std::string& optimizer, const ParamGroup& group);

}  // namespace tensora::optim

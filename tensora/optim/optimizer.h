#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensora/optim/param_group.h"

namespace tensora::optim {

/// How the gradients were scaled, for a step that undoes it without waiting for the device; one
/// float32 number each, on the device of the parameters. Either may be left out.
struct GradScaling {
  Tensor grad_scale = {};  // divides the gradients
  Tensor found_inf = {};   // not 0: nothing is changed
};

/// The base of all optimizers: groups of parameters, a state for each parameter, saving and
/// loading. An optimizer of your own derives from this and writes `update`
/// (docs/add-an-optimizer.md).
class Optimizer {
 public:
  /// Computes the loss and its gradients anew, and returns the loss.
  using Closure = std::function<Tensor()>;
  using Hook = std::function<void(Optimizer&)>;

  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Changes the parameters that have a gradient.
  void step();
  /// Calls the closure first, with gradients recorded, and returns what it returned.
  Tensor step(const Closure& closure);
  /// The same with gradients that a GradScaler scaled; throws if the optimizer cannot undo it.
  void step(const GradScaling& scaling);
  virtual bool supports_grad_scaling() const { return false; }

  /// Forgets all gradients, or sets them to zero.
  void zero_grad(bool set_to_none = true);

  /// Throws if a parameter is there already, or is no leaf.
  void add_param_group(ParamGroup group);
  std::vector<ParamGroup>& param_groups() { return groups_; }
  const std::vector<ParamGroup>& param_groups() const { return groups_; }
  /// The options of a group that gives none.
  const Value::Dict& defaults() const { return defaults_.options; }
  /// The parameters of all groups.
  std::vector<Tensor> parameters() const;

  /// What the optimizer remembers of a parameter: a dict, empty before its first step.
  Value& state(const Tensor& param);
  bool has_state(const Tensor& param) const { return state_.find(param) != state_.end(); }

  /// The options and states, in the shape of PyTorch's: {"state": {0: {"step": …}},
  /// "param_groups": [{"lr": …, "params": [0, 1]}]}. The tensors are the optimizer's own, not
  /// copies.
  Value state_dict() const;
  /// Takes options and states over, by copying. Throws, and changes nothing, if they do not fit.
  void load_state_dict(const Value& state_dict);

  /// Calls `hook` before or after every step. The result undoes the registration when called.
  std::function<void()> register_step_pre_hook(Hook hook);
  std::function<void()> register_step_post_hook(Hook hook);

  const std::string& name() const { return name_; }
  /// The name and the options of all groups, as PyTorch prints them.
  std::string to_string() const;

 protected:
  using CheckOptions = void (*)(const std::string& name, const ParamGroup& group);
  /// `defaults` names all options that a group may have; `check_options` throws if one is out of
  /// range.
  Optimizer(std::string name, Parameters params, Value::Dict defaults,
            CheckOptions check_options = nullptr);

  /// Steps the parameters of one group; gradients are not recorded.
  virtual void update(ParamGroup& group) = 0;
  /// What `step(closure)` does between the hooks: calls the closure, then steps all groups. For an
  /// optimizer that needs the loss more than once.
  virtual Tensor step_with(const Closure& closure);
  /// Throws if what was saved for a parameter cannot be its state.
  virtual void check_state(const Tensor& param, const Value& state) const;

  /// While `step(GradScaling)` runs, its argument; otherwise empty.
  const GradScaling& scaling() const { return scaling_; }

 private:
  using Hooks = std::vector<std::pair<int64_t, Hook>>;
  std::function<void()> add_hook(Hooks Optimizer::*hooks, Hook hook);
  void run_hooks(const Hooks& hooks);
  void update_groups();
  std::string settings() const;
  void check_group(const ParamGroup& group) const;

  std::string name_;
  ParamGroup defaults_;
  CheckOptions check_options_;
  std::vector<ParamGroup> groups_;
  std::unordered_map<Tensor, Value> state_;
  GradScaling scaling_;
  Hooks pre_hooks_, post_hooks_;
  int64_t hooks_made_ = 0;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

/// The dtype of a parameter's state: at least float32.
DType state_dtype(const Tensor& param);
/// A state of the parameter's shape and layout.
Tensor zero_state(const Tensor& param);

inline void append(std::string& out, const Optimizer& optimizer) { out += optimizer.to_string(); }

}  // namespace tensora::optim

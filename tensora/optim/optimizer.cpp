#include "tensora/optim/optimizer.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/sparse_gradient.h"
#include "tensora/base/check.h"
#include "tensora/core/deferred.h"
#include "tensora/dispatch/deferral.h"
#include "tensora/ops.h"

namespace tensora::optim {
namespace {

std::string names_of(const Value::Dict& options) {
  std::string names;
  for (const auto& [key, value] : options) {
    if (!names.empty()) names += ", ";
    names += std::get<std::string>(key);
  }
  return names;
}

// A number for a number, a pair for a pair; where the default is None, anything.
bool is_like(const Value& value, const Value& standard) {
  if (standard.is_none() || value.is_none()) return true;
  if (standard.is_number()) return value.is_number();
  if (standard.is_list()) return value.is_list() && value.size() == standard.size();
  return value.kind() == standard.kind();
}

void append_value(std::string& out, const Value& value) {
  if (value.is_none()) out += "None";
  if (value.is_bool()) out += value.to_bool() ? "True" : "False";
  if (value.is_int()) tensora::append(out, value.to_int());
  if (value.is_double()) tensora::append(out, value.to_double());
  if (value.is_string()) out += value.to_string();
  if (value.is_tensor()) out += value.to_tensor().to_string();
  if (!value.is_list()) return;
  const char* separator = "(";
  for (const Value& item : value.to_list()) {
    out += separator;
    append_value(out, item);
    separator = ", ";
  }
  out += ")";
}

}  // namespace

Optimizer::Optimizer(std::string name, Parameters params, Value::Dict defaults,
                     CheckOptions check_options)
    : name_(std::move(name)),
      defaults_{.params = {}, .options = std::move(defaults)},
      check_options_(check_options) {
  check(!params.groups().empty(), name_, ": got an empty list of parameter groups");
  for (ParamGroup& group : params.groups()) add_param_group(std::move(group));
}

void Optimizer::step() {
  run_hooks(pre_hooks_);
  update_groups();
  run_hooks(post_hooks_);
}

// Everything that programs change between steps, with all bits of numbers.
std::string Optimizer::settings() const {
  std::string text;
  const auto add = [&](const Value& value, const auto& add_list) -> void {
    if (value.is_number()) {
      text += concat(std::bit_cast<uint64_t>(value.to_double()), " ");
    } else if (value.is_list()) {
      for (const Value& item : value.to_list()) add_list(item, add_list);
    } else {
      append_value(text, value);
    }
  };
  for (const ParamGroup& group : groups_) {
    for (const auto& [key, value] : group.options) {
      text += concat(to_text(key), " ");
      add(value, add);
    }
    text += "\n";
  }
  return text;
}

Tensor Optimizer::step(const Closure& closure) {
  run_hooks(pre_hooks_);
  const Tensor loss = step_with(closure);
  run_hooks(post_hooks_);
  return loss;
}

Tensor Optimizer::step_with(const Closure& closure) {
  Tensor loss;
  {
    const enable_grad recorded;
    loss = closure();
  }
  update_groups();
  return loss;
}

void Optimizer::update_groups() {
  const auto update_all = [this] {
    const no_grad silent;
    for (ParamGroup& group : groups_) update(group);
  };
  if (!thread_state.deferral) return update_all();
  if (!pre_hooks_.empty() || !post_hooks_.empty()) note_host_work("an optimizer has hooks");
  if (scaling_.found_inf.defined() || scaling_.grad_scale.defined())
    note_host_work("an optimizer steps with scaled gradients");
  thread_state.deferral->host_step(
      {.run = update_all, .settings = [this] { return settings(); }, .owner = alive_});
}

void Optimizer::step(const GradScaling& scaling) {
  check(supports_grad_scaling(), name_,
        ": cannot step with scaled gradients; unscale them before the step");
  struct Reset {
    GradScaling& scaling;
    ~Reset() { scaling = {}; }
  };
  const Reset reset{scaling_};
  scaling_ = scaling;
  step();
}

void Optimizer::zero_grad(bool set_to_none) {
  const no_grad silent;
  for (const ParamGroup& group : groups_)
    for (const Tensor& param : group.params) {
      if (set_to_none) {
        param.set_grad({});
        continue;
      }
      const Tensor grad = param.grad();
      if (!grad.defined()) continue;
      if (is_sparse(grad))
        param.set_grad(without_entries(grad));
      else if (grad.requires_grad())
        param.set_grad(zeros_like(grad.detach()));  // it was made with create_graph
      else
        grad.zero_();
    }
}

void Optimizer::check_group(const ParamGroup& group) const {
  for (const auto& [key, value] : group.options) {
    const auto* const text = std::get_if<std::string>(&key);
    check(text, name_, ": an option of a parameter group has a number for a name, ", to_text(key));
    if (const Value* standard = defaults_.find(*text))
      check(is_like(value, *standard), name_, ": the option '", *text, "' must be ",
            standard->kind(), standard->is_list() ? " of as many numbers as the default" : "",
            ", got ", value.kind());
  }
  if (check_options_) check_options_(name_, group);
}

void Optimizer::add_param_group(ParamGroup group) {
  for (const auto& [key, value] : group.options) {
    const auto* const text = std::get_if<std::string>(&key);
    check(text && defaults_.contains(*text), name_, ": there is no option ", to_text(key),
          "; the options are ", names_of(defaults_.options));
  }
  ParamGroup complete{.params = std::move(group.params), .options = defaults_.options};
  for (auto& [key, value] : group.options) complete.set(std::get<std::string>(key), value);
  check_group(complete);
  std::unordered_set<Tensor> known;
  for (const ParamGroup& old : groups_) known.insert(old.params.begin(), old.params.end());
  for (size_t i = 0; i < complete.params.size(); ++i) {
    const Tensor& param = complete.params[i];
    check(param.defined(), name_, ": parameter ", i, " of the group is undefined");
    check(param.is_leaf(), name_, ": parameter ", i, " of the group, of shape ", param.sizes(),
          ", is no leaf: it was computed from other tensors");
    check(param.is_floating_point() || param.is_complex(), name_, ": parameter ", i,
          " of the group must be of a floating-point dtype, got ", param.dtype());
    check(known.insert(param).second, name_, ": parameter ", i, " of the group, of shape ",
          param.sizes(), ", is there twice");
  }
  groups_.push_back(std::move(complete));
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const ParamGroup& group : groups_)
    all.insert(all.end(), group.params.begin(), group.params.end());
  return all;
}

Value& Optimizer::state(const Tensor& param) {
  const auto [entry, added] = state_.try_emplace(param);
  if (added) entry->second = Value::dict();
  return entry->second;
}

std::function<void()> Optimizer::add_hook(Hooks Optimizer::*hooks, Hook hook) {
  const int64_t number = hooks_made_++;
  (this->*hooks).emplace_back(number, std::move(hook));
  return [this, hooks, number] {
    std::erase_if(this->*hooks, [=](const auto& entry) { return entry.first == number; });
  };
}
std::function<void()> Optimizer::register_step_pre_hook(Hook hook) {
  return add_hook(&Optimizer::pre_hooks_, std::move(hook));
}
std::function<void()> Optimizer::register_step_post_hook(Hook hook) {
  return add_hook(&Optimizer::post_hooks_, std::move(hook));
}

void Optimizer::run_hooks(const Hooks& hooks) {
  if (hooks.empty()) return;
  const Hooks held = hooks;  // a hook may remove itself
  for (const auto& [number, hook] : held) hook(*this);
}

std::string Optimizer::to_string() const {
  std::string out = name_ + " (";
  for (size_t i = 0; i < groups_.size(); ++i) {
    out += "\nParameter Group " + std::to_string(i) + "\n";
    std::vector<std::pair<std::string, const Value*>> sorted;
    for (const auto& [key, value] : groups_[i].options)
      sorted.emplace_back(std::get<std::string>(key), &value);
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [key, value] : sorted) {
      out += "    " + key + ": ";
      append_value(out, *value);
      out += "\n";
    }
  }
  return out + ")";
}

DType state_dtype(const Tensor& param) { return promote_types(param.dtype(), kFloat32); }

Tensor zero_state(const Tensor& param) { return zeros_like(param, {.dtype = state_dtype(param)}); }

}  // namespace tensora::optim

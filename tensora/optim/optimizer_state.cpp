#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/ops.h"
#include "tensora/optim/optimizer.h"

// Saving and loading of optimizers.

namespace tensora::optim {
namespace {

// Copies what was saved for a parameter, to where its state is kept.
class StateCopier {
 public:
  StateCopier(const Tensor& param, const ParamGroup& group)
      : param_(param),
        capturable_(group.flag("capturable")),
        narrow_(group.flag("narrow_states")) {}

  Value copy(const Value& saved, std::string_view key) const {
    if (saved.is_tensor()) return copy(saved.to_tensor(), key);
    if (saved.is_list()) {
      Value list = Value::list();
      for (const Value& item : saved.to_list()) list.push_back(copy(item, key));
      return list;
    }
    if (!saved.is_dict()) return saved;
    Value dict = Value::dict();
    for (const auto& [name, item] : saved.to_dict()) {
      const auto* const text = std::get_if<std::string>(&name);
      dict[name] = copy(item, text ? std::string_view(*text) : std::string_view());
    }
    return dict;
  }

 private:
  // Counters stay with the host, unless a recorded graph is to count them.
  Tensor copy(const Tensor& saved, std::string_view key) const {
    const Device device =
        is_counter(key) && !capturable_ ? Device(DeviceType::cpu) : param_.device();
    const DType wide = narrow_ && key != "master_param" ? param_.dtype() : state_dtype(param_);
    const DType dtype = is_counter(key)             ? kFloat32
                        : saved.is_floating_point() ? wide
                                                    : saved.dtype();
    if (saved.sizes() != param_.sizes() || is_counter(key)) {
      Tensor copied = empty(saved.sizes(), {.dtype = dtype, .device = device});
      copied.copy_(saved);
      return copied;
    }
    Tensor copied = zeros_like(param_, {.dtype = dtype});
    copied.copy_(saved);
    return copied;
  }
  static bool is_counter(std::string_view key) { return key == "step" || key == "mu_product"; }

  Tensor param_;
  bool capturable_, narrow_;
};

// A graph counts the steps of a group in one place. Parameters that share one number must share
// all: they are stepped together, and each number is advanced once.
void share_counters(std::vector<std::pair<Tensor, Value>>& states) {
  struct Shared {
    double step, product;
    Value numbers;  // the state that has them
  };
  std::vector<Shared> shared;
  for (auto& [param, state] : states) {
    const auto number = [&](const char* key) {
      const Value* const entry = state.find(std::string(key));
      return entry && entry->is_tensor() ? entry->to_tensor().item<double>() : 1.0;
    };
    const double step = number("step"), product = number("mu_product");
    const Device device = param.device();
    const auto same = std::find_if(shared.begin(), shared.end(), [&](const Shared& entry) {
      const Value* const count = entry.numbers.find(std::string("step"));
      return entry.step == step && entry.product == product && count && count->is_tensor() &&
             count->to_tensor().device() == device;
    });
    if (same == shared.end()) {
      shared.push_back({step, product, state});
      continue;
    }
    for (const char* key : {"step", "mu_product"})
      if (state.contains(std::string(key)) && state[key].is_tensor())
        state[key] = same->numbers.at(key);
  }
}

const Value& entry_of(const std::string& name, const Value& dict, const char* key) {
  check(dict.is_dict() && dict.contains(std::string(key)), name,
        ": load_state_dict: expected a dict with 'state' and 'param_groups', got ",
        dict.is_dict() ? "one without '" : dict.kind(), dict.is_dict() ? key : "",
        dict.is_dict() ? "'" : "");
  return dict.at(key);
}

}  // namespace

Value Optimizer::state_dict() const {
  Value states = Value::dict(), groups = Value::list();
  int64_t index = 0;
  for (const ParamGroup& group : groups_) {
    Value::Dict packed = group.options;
    Value params = Value::list();
    for (const Tensor& param : group.params) {
      if (const auto found = state_.find(param); found != state_.end())
        states[index] = found->second;
      params.push_back(index++);
    }
    packed.emplace_back("params", std::move(params));
    groups.push_back(std::move(packed));
  }
  Value result = Value::dict();
  result["state"] = std::move(states);
  result["param_groups"] = std::move(groups);
  return result;
}

void Optimizer::load_state_dict(const Value& state_dict) {
  const no_grad silent;
  const Value& states = entry_of(name_, state_dict, "state");
  const Value& groups = entry_of(name_, state_dict, "param_groups");
  check(states.is_dict() && groups.is_list(), name_,
        ": load_state_dict: expected a dict of states and a list of groups, got ", states.kind(),
        " and ", groups.kind());
  check(groups.size() == groups_.size(), name_, ": load_state_dict: expected ", groups_.size(),
        " parameter groups, got ", groups.size());
  std::vector<ParamGroup> loaded;
  std::unordered_map<Tensor, Value> copies;
  size_t known = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Value& saved = groups.to_list()[g];
    const Value& numbers = entry_of(name_, saved, "params");
    ParamGroup group = groups_[g];
    check(numbers.is_list() && numbers.size() == group.params.size(), name_,
          ": load_state_dict: expected ", group.params.size(), " parameters in group ", g, ", got ",
          numbers.is_list() ? numbers.size() : 0);
    group.lr_on_device = {};  // the old one is to stay as it is if this throws
    for (const auto& [key, value] : saved.to_dict()) {
      const auto* const name = std::get_if<std::string>(&key);
      check(name, name_, ": load_state_dict: an option has a number for a name, ", to_text(key));
      if (*name == "params") continue;
      const bool is_number = value.is_tensor() && value.to_tensor().numel() == 1;
      group.set(*name, is_number ? Value(value.to_tensor().item<double>()) : value);
    }
    check_group(group);
    std::vector<std::pair<Tensor, Value>> of_group;
    for (size_t i = 0; i < group.params.size(); ++i) {
      const Value* const state = states.find(numbers.to_list()[i].to_int());
      if (!state) continue;
      ++known;
      check(state->is_dict(), name_, ": load_state_dict: the state of parameter ", i, " of group ",
            g, " must be a dict, got ", state->kind());
      check_state(group.params[i], *state);
      of_group.emplace_back(group.params[i], *state);
    }
    loaded.push_back(std::move(group));
    const bool capturable = loaded.back().flag("capturable");
    for (auto& [param, state] : of_group) state = StateCopier(param, loaded.back()).copy(state, {});
    if (capturable) share_counters(of_group);
    for (auto& [param, state] : of_group) copies[param] = std::move(state);
  }
  check(known == states.size(), name_, ": load_state_dict: there are states of ", states.size(),
        " parameters, but only ", known, " of them are in a group");
  for (size_t g = 0; g < groups_.size(); ++g) {
    loaded[g].lr_on_device = groups_[g].lr_on_device;
    if (loaded[g].contains("lr")) loaded[g].set_lr(loaded[g].lr());
  }
  groups_ = std::move(loaded);
  state_ = std::move(copies);
}

void Optimizer::check_state(const Tensor&, const Value&) const {}

}  // namespace tensora::optim

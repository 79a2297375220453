#include "tensora/optim/param_group.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/ops.h"

namespace tensora::optim {

const Value* ParamGroup::find(std::string_view name) const {
  for (const auto& [key, value] : options)
    if (const auto* text = std::get_if<std::string>(&key); text && *text == name) return &value;
  return nullptr;
}

const Value& ParamGroup::at(std::string_view name) const {
  const Value* const value = find(name);
  check(value, "ParamGroup: there is no option '", name, "'");
  return *value;
}

bool ParamGroup::flag(std::string_view name) const {
  const Value* const value = find(name);
  return value && !value->is_none() && value->to_bool();
}

void ParamGroup::set(std::string_view name, Value value) {
  if (name == "lr" && lr_on_device.defined()) {
    const no_grad silent;
    lr_on_device.fill_(value.to_double());
  }
  for (auto& [key, old] : options)
    if (const auto* text = std::get_if<std::string>(&key); text && *text == name) {
      old = std::move(value);
      return;
    }
  options.emplace_back(std::string(name), std::move(value));
}

Parameters::Parameters(std::vector<Tensor> params) {
  check(!params.empty(), "Optimizer: got an empty list of parameters");
  groups_.push_back({.params = std::move(params)});
}

}  // namespace tensora::optim

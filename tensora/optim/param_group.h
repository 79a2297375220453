#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/io/state.h"

namespace tensora::optim {

/// Parameters that are stepped with the same options. The options go by PyTorch's names ("lr",
/// "betas", …); those that a group does not give are the optimizer's.
struct ParamGroup {
  std::vector<Tensor> params;
  Value::Dict options = {};
  /// With `capturable`: the learning rate on the device, where a recorded graph reads it; a new
  /// one is written there too.
  Tensor lr_on_device = {};

  double lr() const { return number("lr"); }
  void set_lr(double lr) { set("lr", lr); }

  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const Value* find(std::string_view name) const;
  /// The option of this name; throws if there is none.
  const Value& at(std::string_view name) const;
  double number(std::string_view name) const { return at(name).to_double(); }
  int64_t integer(std::string_view name) const { return at(name).to_int(); }
  /// A flag that is not there is not set.
  bool flag(std::string_view name) const;
  /// One of the numbers of a list: `number("betas", 0)`.
  double number(std::string_view name, int index) const { return at(name).at(index).to_double(); }
  /// Adds an option or changes it.
  void set(std::string_view name, Value value);
};

/// What an optimizer is given: tensors, or groups of tensors.
class Parameters {
 public:
  Parameters(std::vector<Tensor> params);     // NOLINT: implicit
  Parameters(std::vector<ParamGroup> groups)  // NOLINT: implicit
      : groups_(std::move(groups)) {}
  Parameters(std::initializer_list<Tensor> params)  // NOLINT: implicit
      : Parameters(std::vector<Tensor>(params)) {}
  Parameters(std::initializer_list<ParamGroup> groups)  // NOLINT: implicit
      : groups_(groups) {}
  std::vector<ParamGroup>& groups() { return groups_; }

 private:
  std::vector<ParamGroup> groups_;
};

}  // namespace tensora::optim

// state_dict and load_state_dict.
#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/nn/module_state.h"
#include "tensora/ops.h"

namespace tensora::nn {

namespace {

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

// Files from before 2018 have no count of a batch norm's batches: the module keeps its own, as in
// PyTorch.
bool is_batch_count(std::string_view name, const Tensor& tensor) {
  constexpr std::string_view key = "num_batches_tracked";
  return name.ends_with(key) &&
         (name.size() == key.size() || name[name.size() - key.size() - 1] == '.') &&
         tensor.dtype() == kInt64 && tensor.dim() == 0;
}

}  // namespace

// Under all their names: shared ones are not left out.
NamedTensors Module::saved_tensors() const {
  NamedTensors entries;
  for (const auto& entry : state_->parameters)
    if (entry.second.defined()) entries.push_back(entry);
  for (const auto& buffer : state_->buffers)
    if (buffer.persistent && buffer.tensor.defined())
      entries.emplace_back(buffer.name, buffer.tensor);
  for (const auto& [name, child] : named_children())
    for (auto& [key, tensor] : child->saved_tensors())
      entries.emplace_back(name + "." + key, tensor);
  return entries;
}

StateDict Module::state_dict() const {
  StateDict result;
  for (const auto& [name, tensor] : saved_tensors()) result.insert(name, tensor.detach());
  return result;
}

LoadResult Module::load_state_dict(const StateDict& state, LoadOptions options) {
  const NamedTensors mine = saved_tensors();
  LoadResult result;
  std::string problems;
  StateDict known;
  for (const auto& [name, tensor] : mine) {
    known.insert(name, tensor);
    const Tensor* given = state.find(name);
    if (!given) {
      if (!is_batch_count(name, tensor)) result.missing_keys.push_back(name);
      continue;
    }
    if (!given->defined() || given->sizes() != tensor.sizes())
      problems += concat("\n\tsize mismatch for ", name, ": the state_dict has ",
                         given->defined() ? concat("shape ", given->sizes()) : "no tensor",
                         ", the model has shape ", tensor.sizes(), ".");
  }
  for (const auto& [name, tensor] : state)
    if (!known.contains(name)) result.unexpected_keys.push_back(name);
  if (options.strict && !result.unexpected_keys.empty())
    problems =
        concat("\n\tUnexpected key(s) in state_dict: ", quoted(result.unexpected_keys), ".") +
        problems;
  if (options.strict && !result.missing_keys.empty())
    problems =
        concat("\n\tMissing key(s) in state_dict: ", quoted(result.missing_keys), ".") + problems;
  check(problems.empty(), "Error(s) in loading state_dict for ", name(), ":", problems);

  const no_grad scope;
  for (const auto& [name, tensor] : mine) {
    const Tensor* given = state.find(name);
    if (!given) continue;
    if (options.assign)
      tensor.set_data(given->detach());
    else
      tensor.copy_(given->detach());
  }
  return result;
}

}  // namespace tensora::nn

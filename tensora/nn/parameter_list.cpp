#include "tensora/nn/parameter_list.h"

#include "tensora/base/check.h"

namespace tensora::nn {

namespace {

std::vector<std::pair<std::string, std::string>> entries_of(const NamedTensors& parameters) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, tensor] : parameters) {
    std::string sizes;
    for (const int64_t size : tensor.sizes())
      sizes += (sizes.empty() ? "" : "x") + std::to_string(size);
    entries.emplace_back(name,
                         concat("Parameter containing: [", tensor.dtype(), " of size ", sizes,
                                tensor.is_cpu() ? "" : concat(" (", tensor.device(), ")"), "]"));
  }
  return entries;
}

}  // namespace

ParameterList::ParameterList(std::initializer_list<Tensor> tensors) {
  for (const Tensor& tensor : tensors) push_back(tensor);
}

void ParameterList::push_back(const Tensor& data) {
  check(data.defined(), "ParameterList: the tensor is undefined");
  register_parameter(std::to_string(size()), data);
}

const Tensor& ParameterList::operator[](size_t index) const {
  check(index < size(), "ParameterList: index ", index, " is out of range for ", size(),
        " parameters");
  return parameter_list()[index].second;
}

std::string ParameterList::to_string() const { return tree(entries_of(parameter_list())); }

ParameterDict::ParameterDict(std::initializer_list<std::pair<std::string, Tensor>> tensors) {
  for (const auto& [name, tensor] : tensors) insert(name, tensor);
}

bool ParameterDict::contains(std::string_view name) const {
  for (const auto& [key, tensor] : parameter_list())
    if (key == name) return true;
  return false;
}

std::vector<std::string> ParameterDict::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, tensor] : parameter_list()) names.push_back(key);
  return names;
}

std::string ParameterDict::to_string() const { return tree(entries_of(parameter_list())); }

}  // namespace tensora::nn

#include "tensora/nn/sequential.h"

#include "tensora/base/check.h"

namespace tensora::nn {

Sequential::Sequential(std::initializer_list<NamedModule> modules) {
  for (const NamedModule& entry : modules) push_back(entry.name, entry.module);
}

void Sequential::push_back(ModulePtr module) {
  push_back(std::to_string(size()), std::move(module));
}

void Sequential::push_back(const std::string& name, ModulePtr module) {
  check(module != nullptr, "Sequential: the module '", name, "' is null");
  add_child(name, std::move(module));
}

const std::string& Sequential::name_of(size_t index) const {
  check(index < size(), "Sequential: index ", index, " is out of range for ", size(), " modules");
  return child_list()[index].first;
}

Module& Sequential::operator[](size_t index) const {
  (void)name_of(index);
  return *child_list()[index].second;
}

Tensor Sequential::forward(const Tensor& input) const {
  Tensor x = input;
  for (const auto& [name, module] : child_list()) x = module->call(x);
  return x;
}

}  // namespace tensora::nn

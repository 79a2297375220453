#include "tensora/libtorch/nn/containers.h"

namespace torch::nn {

namespace detail {

void complete_arguments(const Module& module, std::vector<AnyValue>& arguments, size_t expected) {
  const auto defaults = module.forward_default_arguments().entries;
  const size_t required = expected - std::min(expected, defaults.size());
  const size_t given = arguments.size();
  if (given < expected && given >= required)
    for (const auto& [position, value] : defaults)
      if (position >= given) arguments.push_back(value);
  if (arguments.size() == expected) return;
  const std::string count = defaults.empty()
                                ? std::to_string(expected)
                                : tensora::concat("at least ", required, " and at most ", expected);
  tensora::fail(module.name(), "'s forward() method expects ", count, " argument(s), but received ",
                given, ". If ", module.name(),
                "'s forward() method has default arguments, please make sure the forward() method "
                "is declared with a corresponding `FORWARD_HAS_DEFAULT_ARGS` macro.");
}

void throw_wrong_argument(size_t index, const std::type_info& expected,
                          const std::type_info& given) {
  tensora::fail("Expected argument #", index, " to be of type ", demangled(expected),
                ", but received value of type ", demangled(given));
}

void throw_wrong_module(const std::type_info& wanted, const std::type_info& held) {
  tensora::fail("Attempted to cast module of type ", demangled(held), " to type ",
                demangled(wanted));
}

}  // namespace detail

AnyModule AnyModule::clone(std::optional<Device> device) const {
  AnyModule copy = *this;
  if (module_) copy.module_ = module_->clone(device);
  return copy;
}

void AnyModule::check_not_empty(const char* call) const {
  tensora::check(!is_empty(), "Cannot call ", call, " on an empty AnyModule");
}

std::shared_ptr<Module> SequentialImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<SequentialImpl>();
  for (size_t i = 0; i < modules_.size(); ++i)
    copy->push_back(child_list()[i].first, modules_[i].clone(device));
  copy->train(is_training());
  return copy;
}

void SequentialImpl::push_back(std::string name, AnyModule module) {
  modules_.push_back(std::move(module));
  register_module(std::move(name), modules_.back().ptr());
}

void SequentialImpl::check_index(size_t index) const {
  tensora::check(index < size(), "Index out of range: ", index, " of ", size(), " modules");
}

std::shared_ptr<Module> ModuleListImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<ModuleListImpl>();
  for (const auto& module : modules_) copy->push_back(module->clone(device));
  return copy;
}

void ModuleListImpl::push_back(std::shared_ptr<Module> module) {
  modules_.push_back(std::move(module));
  register_module(std::to_string(size() - 1), modules_.back());
}

void ModuleListImpl::insert(size_t index, std::shared_ptr<Module> module) {
  tensora::check(index <= size(), "Index out of range: ", index, " of ", size(), " modules");
  modules_.insert(modules_.begin() + static_cast<std::ptrdiff_t>(index), std::move(module));
  for (size_t i = index; i + 1 < size(); ++i) replace_module(std::to_string(i), modules_[i]);
  register_module(std::to_string(size() - 1), modules_.back());
}

std::shared_ptr<Module> ModuleListImpl::ptr(size_t index) const {
  tensora::check(index < size(), "Index out of range: ", index, " of ", size(), " modules");
  return modules_[index];
}

std::shared_ptr<Module> ModuleDictImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<ModuleDictImpl>();
  for (const auto& item : modules_)
    copy->update(std::vector<Item>{{item.key(), item.value()->clone(device)}});
  return copy;
}

void ModuleDictImpl::clear() {
  for (const std::string& key : keys()) unregister_module(key);
  modules_.clear();
}

std::shared_ptr<Module> ModuleDictImpl::pop(const std::string& key) {
  auto module = modules_[key];
  modules_.erase(key);
  unregister_module(key);
  return module;
}

void ModuleDictImpl::update(const std::vector<Item>& modules) {
  for (const auto& [key, module] : modules) {
    if (contains(key)) {
      modules_[key] = module;
      replace_module(key, module);
    } else {
      modules_.insert(key, module);
      register_module(key, module);
    }
  }
}

namespace {

void print_parameter(std::ostream& stream, const std::string& name, const Tensor& tensor) {
  stream << "(" << name << "): Parameter containing: [" << tensor.dtype() << " of size "
         << tensor.sizes() << "]\n";
}

}  // namespace

void ParameterListImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::ParameterList(\n";
  for (const auto& [name, tensor] : parameter_list()) print_parameter(stream, name, tensor);
  stream << ")";
}

Tensor& ParameterListImpl::at(size_t index) {
  tensora::check(index < size(), "Index out of range: ", index, " of ", size(), " parameters");
  return const_cast<Tensor&>(parameter_list()[index].second);
}

void ParameterDictImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::ParameterDict(\n";
  for (const auto& [name, tensor] : parameter_list()) print_parameter(stream, name, tensor);
  stream << ")";
}

Tensor* ParameterDictImpl::find(const std::string& key) const noexcept {
  for (const auto& [name, tensor] : parameter_list())
    if (name == key) return const_cast<Tensor*>(&tensor);
  return nullptr;
}

Tensor& ParameterDictImpl::get(const std::string& key) {
  Tensor* tensor = find(key);
  tensora::check(tensor != nullptr, "No such parameter: `", key, "`");
  return *tensor;
}

Tensor ParameterDictImpl::pop(const std::string& key) {
  auto& list = const_cast<tensora::nn::NamedTensors&>(parameter_list());
  const auto entry =
      std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.first == key; });
  tensora::check(entry != list.end(), "Parameter '", key, "' is not defined");
  const Tensor tensor = entry->second;
  list.erase(entry);
  return tensor;
}

void ParameterDictImpl::clear() {
  const_cast<tensora::nn::NamedTensors&>(parameter_list()).clear();
}

void ParameterDictImpl::update(const ParameterDictImpl& other) {
  for (const auto& [name, tensor] : other.parameter_list())
    tensora::check(contains(name), "Parameter '", name, "' is not defined");
  for (const auto& [name, tensor] : other.parameter_list()) *find(name) = tensor;
}

}  // namespace torch::nn

#include "tensora/libtorch/nn/module.h"

#include <cxxabi.h>

#include "tensora/libtorch/serialize.h"

namespace torch::nn {

namespace detail {

std::string demangled(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : type.name();
}

void throw_wrong_value(const std::type_info& wanted, const std::type_info& held) {
  tensora::fail("Attempted to cast AnyValue to ", demangled(wanted), ", but its actual type is ",
                demangled(held));
}

void throw_other_class() {
  tensora::fail(
      "Attempted to clone submodule, but it is of a different type than the submodule it was to be "
      "cloned into");
}
void throw_empty_holder() { tensora::fail("Accessing empty ModuleHolder"); }

}  // namespace detail

namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

std::shared_ptr<Module> as_torch(const tensora::nn::ModulePtr& module) {
  return std::dynamic_pointer_cast<Module>(module);
}

void check_name(const char* kind, const std::string& name) {
  tensora::check(!name.empty(), kind, " name must not be empty");
  tensora::check(name.find('.') == std::string::npos, kind, " name must not contain a dot (got '",
                 name, "')");
}

}  // namespace

std::string Module::name() const {
  if (!name_) name_ = detail::demangled(typeid(*this));
  return *name_;
}

std::shared_ptr<Module> Module::clone(const std::optional<Device>&) const {
  tensora::fail("clone() has not been implemented for ", name(), ". Subclass torch::nn::Cloneable<",
                name(), "> instead of torch::nn::Module to ", "inherit the ability to clone.");
}

// ---- the modules below
// ---------------------------------------------------------------------------

void Module::apply(const Function& function) {
  function(*this);
  for (const auto& child : children()) child->apply(function);
}
void Module::apply(const ConstFunction& function) const {
  function(*this);
  for (const auto& child : children()) std::as_const(*child).apply(function);
}
void Module::apply(const NamedFunction& function, const std::string& prefix) {
  function(prefix, *this);
  for (const auto& child : named_children())
    child.value()->apply(function, joined(prefix, child.key()));
}
void Module::apply(const ConstNamedFunction& function, const std::string& prefix) const {
  function(prefix, *this);
  for (const auto& child : named_children())
    std::as_const(*child.value()).apply(function, joined(prefix, child.key()));
}
void Module::apply(const PointerFunction& function) const {
  function(shared_from_this_checked());
  for (const auto& child : children()) child->apply(function);
}
void Module::apply(const NamedPointerFunction& function, const std::string& prefix) const {
  function(prefix, shared_from_this_checked());
  for (const auto& child : named_children())
    child.value()->apply(function, joined(prefix, child.key()));
}

OrderedDict<std::string, Tensor> Module::named_parameters(bool recurse) const {
  OrderedDict<std::string, Tensor> result("Parameter");
  for (auto& [name, tensor] : tensora::nn::Module::named_parameters(recurse))
    result.insert(name, tensor);
  return result;
}

OrderedDict<std::string, Tensor> Module::named_buffers(bool recurse) const {
  OrderedDict<std::string, Tensor> result("Buffer");
  for (auto& [name, tensor] : tensora::nn::Module::named_buffers(recurse))
    result.insert(name, tensor);
  return result;
}

std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) const {
  std::vector<std::shared_ptr<Module>> result;
  if (include_self) result.push_back(shared_from_this_checked());
  for (const auto& child : children())
    child->apply([&](const std::shared_ptr<Module>& module) { result.push_back(module); });
  return result;
}

OrderedDict<std::string, std::shared_ptr<Module>> Module::named_modules(const std::string& prefix,
                                                                        bool include_self) const {
  OrderedDict<std::string, std::shared_ptr<Module>> result("Module");
  if (include_self) result.insert(prefix, shared_from_this_checked());
  for (const auto& child : named_children())
    child.value()->apply(
        [&](const std::string& name, const std::shared_ptr<Module>& module) {
          result.insert(name, module);
        },
        joined(prefix, child.key()));
  return result;
}

std::vector<std::shared_ptr<Module>> Module::children() const { return named_children().values(); }

OrderedDict<std::string, std::shared_ptr<Module>> Module::named_children() const {
  OrderedDict<std::string, std::shared_ptr<Module>> result("Submodule");
  for (const auto& [name, child] : child_list())
    if (auto module = as_torch(child)) result.insert(name, module);
  return result;
}

std::shared_ptr<Module> Module::shared_from_this_checked() const {
  const auto self = weak_from_this().lock();
  tensora::check(self != nullptr,
                 "It looks like you attempted to retrieve your top-level module as a shared_ptr, "
                 "but it is not stored in a shared_ptr. Use std::make_shared<",
                 name(),
                 "> instead of creating your module on the stack, or alternatively do not try to "
                 "access your top-level module at all by passing /*include_self=*/false to "
                 "modules() or named_modules()");
  return std::const_pointer_cast<Module>(self);
}

// ---- state
// ---------------------------------------------------------------------------------------

void Module::train(bool on) {
  tensora::nn::Module::train(on);
  for (const auto& child : children()) child->train(on);  // a class may have its own
}
void Module::to(Device device, Dtype dtype, bool) { tensora::nn::Module::to(device, dtype); }
void Module::to(Dtype dtype, bool) { tensora::nn::Module::to(dtype); }
void Module::to(Device device, bool) { tensora::nn::Module::to(device); }
void Module::zero_grad(bool set_to_none) { tensora::nn::Module::zero_grad(set_to_none); }

Tensor& Module::register_parameter(const std::string& name, Tensor tensor, bool requires_grad) {
  check_name("Parameter", name);
  for (const auto& [taken, other] : parameter_list())
    tensora::check(taken != name, "Parameter '", name, "' already defined");
  if (tensor.defined() && tensor.is_leaf() && tensor.is_floating_point())
    tensor.requires_grad_(requires_grad);
  tensora::nn::Module::register_parameter(name, tensor, requires_grad);
  return const_cast<Tensor&>(parameter_list().back().second);
}

Tensor Module::register_buffer(const std::string& name, Tensor tensor) {
  check_name("Buffer", name);
  return tensora::nn::Module::register_buffer(name, tensor);
}

void Module::register_child(const std::string& name, std::shared_ptr<Module> module) {
  check_name("Submodule", name);
  for (const auto& [taken, other] : child_list())
    tensora::check(taken != name, "Submodule '", name, "' already defined");
  add_child(name, std::move(module));
}

void Module::unregister_module(const std::string& name) {
  const auto& list = child_list();
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].first == name) return remove_child(i);
  tensora::fail("No Module with name `", name, "` is registered");
}

void Module::replace_named_child(const std::string& name, std::shared_ptr<Module> module) {
  for (const auto& [taken, other] : child_list())
    if (taken == name) {
      const_cast<tensora::nn::ModulePtr&>(other) = std::move(module);
      return;
    }
  tensora::fail("Submodule '", name, "' is not defined");
}

void Module::refill(const tensora::nn::Module& fresh) {
  const NoGradGuard no_grad;
  const auto values = fresh.tensora::nn::Module::named_parameters();
  const auto mine = tensora::nn::Module::named_parameters();
  for (size_t i = 0; i < mine.size(); ++i) mine[i].second.copy_(values[i].second);
}

void Module::clone_(Module&, const std::optional<Device>&) {
  tensora::fail("clone: ", name(), " does not derive from torch::nn::Cloneable");
}

std::shared_ptr<Module> Module::finish_clone(std::unique_ptr<Module> copy,
                                             const std::optional<Device>& device) const {
  copy->adopt(tensora::nn::Module());  // without parameters, buffers and modules
  copy->make_anew();
  copy->copy_contents_of(*this, device);
  return copy;
}

void Module::copy_contents_of(const Module& original, const std::optional<Device>& device) {
  const auto copy = [&](const Tensor& tensor) {
    const Tensor own = tensor.detach().clone();
    return device ? own.to(*device) : own;
  };
  const auto mine = parameter_list();
  const auto& theirs = original.parameter_list();
  tensora::check(mine.size() == theirs.size(),
                 "The cloned module does not have the same number of parameters as the original "
                 "module after calling reset(). Are you sure you called register_parameter() "
                 "inside reset() and not the constructor?");
  for (size_t i = 0; i < mine.size(); ++i)
    if (mine[i].second.defined() && theirs[i].second.defined())
      mine[i].second.set_data(copy(theirs[i].second));
  const auto buffers = tensora::nn::Module::named_buffers(false),
             their_buffers = original.tensora::nn::Module::named_buffers(false);
  tensora::check(buffers.size() == their_buffers.size(),
                 "The cloned module does not have the same number of buffers as the original "
                 "module after calling reset(). Are you sure you called register_buffer() inside "
                 "reset() and not the constructor?");
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].second.set_data(copy(their_buffers[i].second));
  const auto parts = child_list();
  const auto& their_parts = original.child_list();
  tensora::check(parts.size() == their_parts.size(),
                 "The cloned module does not have the same number of child modules as the original "
                 "module after calling reset(). Are you sure you called register_module() inside "
                 "reset() and not the constructor?");
  for (size_t i = 0; i < parts.size(); ++i)
    if (const auto part = as_torch(parts[i].second), their = as_torch(their_parts[i].second);
        part && their)
      part->clone_(*their, device);
    else if (parts[i].second && their_parts[i].second)  // of a layer of Tensora
      parts[i].second->load_state_dict(their_parts[i].second->state_dict());
}

// ---- text and files
// ------------------------------------------------------------------------------

void Module::pretty_print(std::ostream& stream) const { stream << name(); }

void Module::print_tree(std::ostream& stream, const std::string& indentation) const {
  pretty_print(stream);
  const auto parts = named_children();
  if (parts.is_empty()) return;
  stream << "(\n";
  const std::string next = indentation + "  ";
  for (const auto& part : parts) {
    stream << next << "(" << part.key() << "): ";
    part.value()->print_tree(stream, next);
    stream << '\n';
  }
  stream << indentation << ")";
}

std::string Module::to_string() const {
  std::ostringstream stream;
  print_tree(stream, "");
  return stream.str();
}

void Module::save(serialize::OutputArchive& archive) const {
  for (const auto& [name, tensor] : parameter_list())
    if (tensor.defined()) archive.write(name, tensor);
  for (const auto& [name, tensor] : tensora::nn::Module::named_buffers(false))
    archive.write(name, tensor, /*is_buffer=*/true);
  for (const auto& [name, child] : child_list()) {
    const auto module = as_torch(child);
    if (!child || (module && !module->is_serializable())) continue;
    serialize::OutputArchive part;
    if (module)
      module->save(part);
    else  // of a layer of Tensora
      for (const auto& [key, tensor] : child->state_dict()) part.write(key, tensor);
    archive.write(name, part);
  }
}

void Module::load(serialize::InputArchive& archive) {
  for (const auto& [name, tensor] : parameter_list())
    if (tensor.defined()) archive.read(name, const_cast<Tensor&>(tensor));
  for (auto& [name, tensor] : tensora::nn::Module::named_buffers(false))
    archive.read(name, tensor, /*is_buffer=*/true);
  for (const auto& [name, child] : child_list()) {
    const auto module = as_torch(child);
    if (!child || (module && !module->is_serializable())) continue;
    serialize::InputArchive part;
    archive.read(name, part);
    if (module)
      module->load(part);
    else
      child->load_state_dict(part.content().to_state_dict());
  }
}

std::ostream& operator<<(std::ostream& stream, const Module& module) {
  return stream << module.to_string();
}

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const std::shared_ptr<Module>& module) {
  tensora::check(module != nullptr, "Cannot serialize empty module");
  module->save(archive);
  return archive;
}

serialize::InputArchive& operator>>(serialize::InputArchive& archive,
                                    const std::shared_ptr<Module>& module) {
  tensora::check(module != nullptr, "Cannot deserialize empty module");
  module->load(archive);
  return archive;
}

}  // namespace torch::nn

#include "tensora/nn/module.h"

#include <memory>
#include <unordered_set>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/sparse_gradient.h"
#include "tensora/base/check.h"
#include "tensora/nn/module_handles.h"
#include "tensora/nn/module_state.h"
#include "tensora/ops.h"

namespace tensora::nn {

namespace {

thread_local CloneScope* current_clone_scope = nullptr;
thread_local TensorOptions factory_options;

}  // namespace

// ---- scopes, parameters
// --------------------------------------------------------------------------

CloneScope::CloneScope() : outer_(std::exchange(current_clone_scope, this)) {}
CloneScope::~CloneScope() { current_clone_scope = outer_; }
CloneScope* CloneScope::current() { return current_clone_scope; }

Tensor CloneScope::copy_of(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  Tensor& copy = tensors_[tensor.impl_ptr().get()];
  if (!copy.defined()) {
    copy = tensor.detach().clone(MemoryFormat::preserve);
    if (tensor.requires_grad()) copy.requires_grad_();
  }
  return copy;
}

std::shared_ptr<ModuleState> CloneScope::copy_of(const std::shared_ptr<ModuleState>& state) {
  if (!state) return state;
  if (const auto found = states_.find(state.get()); found != states_.end()) return found->second;
  check(state->held_by_pointer.empty(), "clone: the module '", state->held_by_pointer,
        "' was registered as a std::shared_ptr, which the copy would share with its original; hold "
        "it by value, or in a std::optional");
  const auto copy = std::make_shared<ModuleState>(*state);
  states_[state.get()] = copy;
  for (auto& [name, tensor] : copy->parameters) tensor = copy_of(tensor);
  for (auto& buffer : copy->buffers) buffer.tensor = copy_of(buffer.tensor);
  for (auto& [name, child] : copy->children)
    if (child) ModuleHandles::list(*(child = child->copy()), copy);
  return copy;
}

Parameter::Parameter(const Tensor& data, bool requires_grad)
    : ModuleTensor(data.defined() ? data.detach() : data) {
  if (defined()) requires_grad_(requires_grad);
}

Parameter Parameter::shared(const Tensor& leaf) {
  check(leaf.is_leaf() && leaf.requires_grad(),
        "Parameter::shared: expected a leaf that requires gradients");
  return {Shared(), leaf};
}

FactoryScope::FactoryScope(const TensorOptions& options) : outer_(factory_options) {
  if (options.dtype) factory_options.dtype = options.dtype;
  if (options.device) factory_options.device = options.device;
}
FactoryScope::~FactoryScope() { factory_options = outer_; }
TensorOptions FactoryScope::current() { return factory_options; }

// ---- registration
// --------------------------------------------------------------------------------

Module::Module() : state_(std::make_shared<ModuleState>()) {}
Module::Module(const Module& other)
    : state_(CloneScope::current() ? CloneScope::current()->copy_of(other.state_) : other.state_) {}
Module::~Module() { ModuleHandles::remove(*this); }

namespace {

void check_name(const Module& module, const ModuleState& state, const std::string& name,
                std::string_view kind) {
  check(!name.empty() && name.find('.') == std::string::npos, module.name(), ": the name of a ",
        kind, " must not be empty nor contain a dot, got '", name, "'");
  const auto taken = [&](const auto& list) {
    for (const auto& entry : list)
      if (entry.first == name) return true;
    return false;
  };
  bool buffer = false;
  for (const auto& entry : state.buffers) buffer = buffer || entry.name == name;
  check(!taken(state.parameters) && !taken(state.children) && !buffer, module.name(),
        ": the name '", name, "' is there already");
}

}  // namespace

Parameter Module::register_parameter(const std::string& name, const Tensor& data,
                                     bool requires_grad) {
  check_name(*this, *state_, name, "parameter");
  const bool is_parameter =
      data.defined() && requires_grad && data.is_leaf() && data.requires_grad();
  Parameter parameter = is_parameter ? Parameter::shared(data) : Parameter(data, requires_grad);
  state_->parameters.emplace_back(name, parameter);
  return parameter;
}

Buffer Module::register_buffer(const std::string& name, const Tensor& data, BufferOptions options) {
  check_name(*this, *state_, name, "buffer");
  Buffer buffer(data);
  state_->buffers.push_back({name, buffer, options.persistent});
  return buffer;
}

void Module::add_child(const std::string& name, ModulePtr module) {
  check_name(*this, *state_, name, "module");
  check(!module || module->state_ != state_, this->name(), ": a module cannot contain itself");
  if (module) ModuleHandles::list(*module, state_);
  state_->children.emplace_back(name, std::move(module));
}

void Module::mark_as_pointer(const std::string& name) { state_->held_by_pointer = name; }

void Module::remove_child(size_t index) {
  state_->children.erase(state_->children.begin() + static_cast<std::ptrdiff_t>(index));
}

const NamedTensors& Module::parameter_list() const { return state_->parameters; }
const NamedModules& Module::child_list() const { return state_->children; }

// ---- contents
// ------------------------------------------------------------------------------------

NamedModules Module::named_children() const {
  NamedModules result;
  for (const auto& child : state_->children)
    if (child.second) result.push_back(child);
  return result;
}

std::vector<ModulePtr> Module::children() const {
  std::vector<ModulePtr> result;
  for (auto& [name, child] : named_children()) result.push_back(std::move(child));
  return result;
}

NamedModules Module::named_modules() const {
  NamedModules result;
  std::unordered_set<const void*> seen = {state_.get()};
  const auto visit = [&](const auto& recurse, const Module& module,
                         const std::string& prefix) -> void {
    for (const auto& [name, child] : module.state_->children) {
      if (!child || !seen.insert(child->state_.get()).second) continue;
      result.emplace_back(prefix + name, child);
      recurse(recurse, *child, prefix + name + ".");
    }
  };
  visit(visit, *this, "");
  return result;
}

void Module::collect(NamedTensors& tensors, bool buffers, bool recurse) const {
  std::unordered_set<const void*> seen;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    if (tensor.defined() && seen.insert(tensor.impl_ptr().get()).second)
      tensors.emplace_back(name, tensor);
  };
  const auto take = [&](const Module& module, const std::string& prefix) {
    if (buffers)
      for (const auto& buffer : module.state_->buffers) add(prefix + buffer.name, buffer.tensor);
    else
      for (const auto& [name, tensor] : module.state_->parameters) add(prefix + name, tensor);
  };
  take(*this, "");
  if (!recurse) return;
  for (const auto& [name, module] : named_modules()) take(*module, name + ".");
}

namespace {

TensorList without_names(NamedTensors named) {
  TensorList result;
  result.reserve(named.size());
  for (auto& [name, tensor] : named) result.push_back(std::move(tensor));
  return result;
}

}  // namespace

NamedTensors Module::named_parameters(bool recurse) const {
  NamedTensors result;
  collect(result, false, recurse);
  return result;
}
NamedTensors Module::named_buffers(bool recurse) const {
  NamedTensors result;
  collect(result, true, recurse);
  return result;
}
TensorList Module::parameters(bool recurse) const {
  return without_names(named_parameters(recurse));
}
TensorList Module::buffers(bool recurse) const { return without_names(named_buffers(recurse)); }

int64_t Module::parameter_count(bool trainable_only) const {
  int64_t count = 0;
  for (const Tensor& tensor : parameters())
    if (!trainable_only || tensor.requires_grad()) count += tensor.numel();
  return count;
}

Module& Module::get_submodule(std::string_view path) const {
  check(!path.empty(), "get_submodule: the path is empty");
  const Module* module = this;
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const Module* next = nullptr;
    for (const auto& [name, child] : module->state_->children)
      if (name == part) next = child.get();
    check(next, "get_submodule: ", module->name(), " has no module '", part, "' (path '", path,
          "')");
    module = next;
  }
  return const_cast<Module&>(*module);  // the handle is const, what it refers to is not
}

namespace {

// The module and the name of the tensor in it that a path leads to.
std::pair<std::string_view, std::string_view> split_path(std::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {{}, path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

}  // namespace

Tensor Module::get_parameter(std::string_view path) const {
  const auto [where, name] = split_path(path);
  const Module& module = where.empty() ? *this : get_submodule(where);
  for (const auto& [key, tensor] : module.state_->parameters)
    if (key == name) return tensor;
  throw_error(concat("get_parameter: ", module.name(), " has no parameter '", name, "' (path '",
                     path, "')"));
}

Tensor Module::get_buffer(std::string_view path) const {
  const auto [where, name] = split_path(path);
  const Module& module = where.empty() ? *this : get_submodule(where);
  for (const auto& buffer : module.state_->buffers)
    if (buffer.name == name) return buffer.tensor;
  throw_error(
      concat("get_buffer: ", module.name(), " has no buffer '", name, "' (path '", path, "')"));
}

void Module::throw_wrong_type(const Module& module, std::string_view path) {
  throw_error(concat("get: the module '", path, "' is a ", module.name(),
                     ", not of the type that was asked for"));
}

// ---- changes
// -------------------------------------------------------------------------------------

bool Module::is_training() const { return state_->training; }

void Module::train(bool on) {
  state_->training = on;
  for (const auto& [name, module] : named_modules()) module->state_->training = on;
}

void Module::convert(const std::function<Tensor(const Tensor&)>& convert) {
  const no_grad scope;
  const auto change = [&](const Tensor& tensor) {
    const Tensor grad = tensor.grad();
    tensor.set_data(convert(tensor.detach()));
    const SparseParts* const parts = sparse_parts(grad);
    if (parts)
      tensor.set_grad(with_values(grad, convert(parts->values.detach())));
    else if (grad.defined())
      tensor.set_grad(convert(grad.detach()));
  };
  for (const Tensor& tensor : parameters()) change(tensor);
  for (const Tensor& tensor : buffers()) change(tensor);
}

void Module::to(const ModulePlacement& placement) {
  check(!placement.dtype || tensora::is_floating_point(*placement.dtype) ||
            tensora::is_complex(*placement.dtype),
        "Module::to: only floating and complex dtypes are accepted, got ",
        placement.dtype.value_or(DType::float32));
  convert([&](const Tensor& tensor) {
    const bool cast = placement.dtype && (tensor.is_floating_point() || tensor.is_complex());
    Tensor result = tensor.to(placement.device.value_or(tensor.device()),
                              cast ? *placement.dtype : tensor.dtype());
    const int dims = placement.memory_format == MemoryFormat::channels_last_3d ? 5 : 4;
    if (placement.memory_format && result.dim() == dims)
      result = result.contiguous(*placement.memory_format);
    return result;
  });
}

void Module::to_empty(Device device) {
  convert([&](const Tensor& tensor) {
    return make_tensor(tensor.sizes(), tensor.strides(), tensor.dtype(), device);
  });
}

void Module::zero_grad(bool set_to_none) {
  for (const Tensor& tensor : parameters()) {
    if (set_to_none) {
      tensor.set_grad({});
      continue;
    }
    const Tensor grad = tensor.grad();
    if (!grad.defined()) continue;
    if (is_sparse(grad)) {
      tensor.set_grad(set_to_none ? Tensor() : without_entries(grad));
      continue;
    }
    const Tensor plain = grad.detach();  // the same array, so that a captured graph finds it
    tensor.set_grad(plain.zero_());
  }
}

void Module::requires_grad_(bool value) {
  for (const Tensor& tensor : parameters()) tensor.requires_grad_(value);
}

void Module::apply(const std::function<void(Module&)>& function) {
  for (const auto& [name, child] : state_->children)
    if (child) child->apply(function);
  function(*this);
}

Tensor Module::call(const Tensor&) {
  throw_error(concat(name(),
                     ": its forward does not turn one tensor into one tensor, so it cannot "
                     "stand in a Sequential or be called as a plain Module"));
}

ModulePtr Module::copy() const {
  throw_error(concat(name(),
                     ": to be copied as a child of another module, a class derives from "
                     "nn::Layer<itself>, not from nn::Module"));
}

}  // namespace tensora::nn

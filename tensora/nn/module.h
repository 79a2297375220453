#pragma once

#include <iosfwd>
#include <memory>

#include "tensora/io/state.h"
#include "tensora/nn/parameter.h"

namespace tensora::nn {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using ModulePtr = std::shared_ptr<Module>;
using NamedModules = std::vector<std::pair<std::string, ModulePtr>>;

/// What `load_state_dict` found to differ; both empty unless `.strict = false`.
struct LoadResult {
  std::vector<std::string> missing_keys, unexpected_keys;
};
struct LoadOptions {
  bool strict = true;   // missing or unexpected keys are errors
  bool assign = false;  // take over the given tensors, with their dtype and device, without a copy
};
struct BufferOptions {
  bool persistent = true;  // part of the state_dict
};
/// What `Module::to` changes; what is not set stays.
struct ModulePlacement {
  std::optional<Device> device = {};
  std::optional<DType> dtype = {};                 // of floating tensors
  std::optional<MemoryFormat> memory_format = {};  // of 4-D or 5-D parameters
};

/// Sees the tensors among the arguments of a call, and may replace them.
using ForwardPreHook = std::function<void(Module&, TensorList& inputs)>;
/// Sees the tensors in the result of a call, and may replace them.
using ForwardHook = std::function<void(Module&, const TensorList& inputs, TensorList& outputs)>;
/// Sees the gradients of a call's inputs and outputs (undefined where there is none); what it
/// returns, unless empty, replaces the gradients of the inputs.
using BackwardHook = std::function<TensorList(Module&, const TensorList& grad_inputs,
                                              const TensorList& grad_outputs)>;

/// A part of a network: parameters, buffers and smaller modules, each with a name. Copying a module
/// shares all of these; `clone()` copies them. Layers and networks derive from `Layer<Self>`
/// (nn/layer.h), which adds the call operator:
///
///     struct Net : nn::Layer<Net> {
///       nn::Linear hidden = register_module("hidden", nn::Linear(784, 128));
///       nn::Linear output = register_module("output", nn::Linear(128, 10));
///       Tensor forward(const Tensor& x) const { return output(relu(hidden(x))); }
///     };
class Module {
 public:
  Module();
  Module(const Module& other);
  // A module that was moved from stays a handle to the same parts.
  Module(Module&& other) noexcept : state_(other.state_) {}  // NOLINT: the copy is meant
  /// Makes this a handle to another module. A member of a layer is registered: its new module takes
  /// the place of the old one there, and in all handles to that layer.
  Module& operator=(const Module& other);
  Module& operator=(Module&& other) {  // NOLINT: it may throw, as the copy does
    return *this = static_cast<const Module&>(other);
  }
  virtual ~Module();

  // Registration: in the initialisers of members, or in constructors. The result is the member.
  Parameter register_parameter(const std::string& name, const Tensor& data,
                               bool requires_grad = true);
  Buffer register_buffer(const std::string& name, const Tensor& data, BufferOptions options = {});
  template <std::derived_from<Module> M>
  M register_module(const std::string& name, M module) {
    add_child(name, std::make_shared<M>(module));
    return module;
  }
  /// The same for a module that is held by pointer; the pointer may be null. Such a module cannot
  /// be cloned with this one: the copy of the pointer would lead to the original.
  template <std::derived_from<Module> M>
  std::shared_ptr<M> register_module(const std::string& name, std::shared_ptr<M> module) {
    add_child(name, module);
    if (module) mark_as_pointer(name);
    return module;
  }

  /// Registers `module` in the place of the one under `name`, and makes the members that were
  /// handles to the old one handles to it, as `net.hidden = module` does. The result is the member:
  /// `hidden = replace_module("hidden", nn::Linear(784, 256))`. An optimizer made before keeps the
  /// old parameters.
  template <std::derived_from<Module> M>
  M replace_module(const std::string& name, M module) {
    replace_child(name, std::make_shared<M>(module));
    return module;
  }

  // What the module consists of. Names are joined by dots; a tensor that is shared is listed once.
  TensorList parameters(bool recurse = true) const;
  NamedTensors named_parameters(bool recurse = true) const;
  TensorList buffers(bool recurse = true) const;
  NamedTensors named_buffers(bool recurse = true) const;
  std::vector<ModulePtr> children() const;
  NamedModules named_children() const;
  /// All modules below this one, each before its own children; not this one itself.
  NamedModules named_modules() const;
  /// By path, as in "layers.0.weight"; throws and names the part that is not there.
  Tensor get_parameter(std::string_view path) const;
  Tensor get_buffer(std::string_view path) const;
  Module& get_submodule(std::string_view path) const;
  template <class M>
  M& get(std::string_view path) const {
    return cast<M>(get_submodule(path), path);
  }
  /// How many numbers the parameters hold.
  int64_t parameter_count(bool trainable_only = false) const;

  /// Training mode: dropout drops, batch norm takes the batch's statistics.
  bool is_training() const;
  void train(bool on = true);
  void eval() { train(false); }

  /// Moves and casts all parameters, their gradients, and all buffers. Every handle to them sees
  /// it.
  void to(const ModulePlacement& placement);
  void to(Device device) { to(ModulePlacement{.device = device}); }
  void to(DType dtype) { to(ModulePlacement{.dtype = dtype}); }
  void to(Device device, DType dtype) { to(ModulePlacement{.device = device, .dtype = dtype}); }
  void to(MemoryFormat format) { to(ModulePlacement{.memory_format = format}); }
  void cpu() { to(Device(DeviceType::cpu)); }
  void cuda() { to(Device(DeviceType::cuda)); }
  /// The same shapes on another device, with contents not set: for a model made on the meta device.
  void to_empty(Device device);

  /// Drops the gradients, or zeroes them.
  void zero_grad(bool set_to_none = true);
  void requires_grad_(bool value = true);
  /// Calls `function` for every module below, then for this one.
  void apply(const std::function<void(Module&)>& function);

  /// The parameters and persistent buffers by name, as PyTorch names them. They share memory with
  /// the module and are outside of any graph. A tensor with two names stands under both.
  StateDict state_dict() const;
  /// Copies the tensors of `state` into the module. Everything is checked before the first write:
  /// the error lists all missing and unexpected keys and all wrong shapes.
  LoadResult load_state_dict(const StateDict& state, LoadOptions options = {});

  // Hooks around calls. The result undoes the registration when called.
  std::function<void()> register_forward_pre_hook(ForwardPreHook hook);
  std::function<void()> register_forward_hook(ForwardHook hook);
  std::function<void()> register_full_backward_hook(BackwardHook hook);

  /// Runs the module, with its hooks, on one tensor; an error if its forward takes something else.
  virtual Tensor call(const Tensor& input);
  /// Another handle to this module; within a CloneScope, a copy of it.
  virtual ModulePtr copy() const;

  /// The name of the class.
  virtual std::string name() const;
  /// What is printed between the parentheses: "in_features=3, out_features=4, bias=True".
  virtual std::string extra_repr() const { return {}; }
  /// The tree, as PyTorch prints it.
  virtual std::string to_string() const;
  /// Whether two handles are the same module.
  bool is_same(const Module& other) const { return state_ == other.state_; }

 protected:
  /// Tells that this is the base of an object of `size` bytes, whose members belong to the module.
  void enlist(size_t size);
  /// `*this = other` for an `other` of the same class.
  virtual void assign(const Module& other);
  const NamedTensors& parameter_list() const;
  const NamedModules& child_list() const;
  void add_child(const std::string& name, ModulePtr module);
  void remove_child(size_t index);
  /// "(name): text" lines between braces, for the printed tree.
  std::string tree(const std::vector<std::pair<std::string, std::string>>& entries) const;

  bool has_hooks() const;
  void run_forward_pre_hooks(TensorList& inputs);
  void run_forward_hooks(const TensorList& inputs, TensorList& outputs);
  /// Puts the backward hooks between a call's inputs and outputs and the rest of the graph.
  class BackwardHooks;
  std::shared_ptr<BackwardHooks> watch_inputs(TensorList& inputs);
  static void watch_outputs(const std::shared_ptr<BackwardHooks>& hooks, TensorList& outputs);

 private:
  friend class ModuleHandles;
  template <class M>
  static M& cast(Module& module, std::string_view path) {
    M* typed = dynamic_cast<M*>(&module);
    if (!typed) throw_wrong_type(module, path);
    return *typed;
  }
  void replace_child(const std::string& name, ModulePtr module);
  void mark_as_pointer(const std::string& name);
  [[noreturn]] static void throw_wrong_type(const Module& module, std::string_view path);
  void collect(NamedTensors& tensors, bool buffers, bool recurse) const;
  void convert(const std::function<Tensor(const Tensor&)>& convert);
  NamedTensors saved_tensors() const;

  std::shared_ptr<ModuleState> state_;
};

std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace tensora::nn

#pragma once

// LibTorch's modules, which are held by pointer. They are modules of Tensora: what they consist of,
// their state_dict, training mode and placement are tensora::nn::Module's.

#include <functional>
#include <memory>

#include "tensora/libtorch/autograd.h"
#include "tensora/libtorch/nn/any_value.h"
#include "tensora/libtorch/ordered_dict.h"
#include "tensora/nn/module.h"

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace torch::nn {

template <class Contained>
class ModuleHolder;

class Module : public tensora::nn::Module, public std::enable_shared_from_this<Module> {
 public:
  using Function = std::function<void(Module&)>;
  using ConstFunction = std::function<void(const Module&)>;
  using NamedFunction = std::function<void(const std::string&, Module&)>;
  using ConstNamedFunction = std::function<void(const std::string&, const Module&)>;
  using PointerFunction = std::function<void(const std::shared_ptr<Module>&)>;
  using NamedPointerFunction =
      std::function<void(const std::string&, const std::shared_ptr<Module>&)>;

  Module() = default;
  explicit Module(std::string name) : name_(std::move(name)) {}
  Module(const Module&) = default;
  Module(Module&&) noexcept = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) = default;  // NOLINT: it may throw, as the copy does
  ~Module() override = default;

  /// The name that was given, or that of the class.
  std::string name() const override;
  /// A copy with parameters of its own; only classes that derive from Cloneable have one.
  virtual std::shared_ptr<Module> clone(const std::optional<Device>& device = {}) const;

  /// Calls the function for this module, then for those below it.
  void apply(const Function& function);
  void apply(const ConstFunction& function) const;
  void apply(const NamedFunction& function, const std::string& prefix = {});
  void apply(const ConstNamedFunction& function, const std::string& prefix = {}) const;
  void apply(const PointerFunction& function) const;
  void apply(const NamedPointerFunction& function, const std::string& prefix = {}) const;

  OrderedDict<std::string, Tensor> named_parameters(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_buffers(bool recurse = true) const;
  std::vector<std::shared_ptr<Module>> modules(bool include_self = true) const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_modules(const std::string& prefix = {},
                                                                  bool include_self = true) const;
  std::vector<std::shared_ptr<Module>> children() const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_children() const;

  virtual void train(bool on = true);
  void eval() { train(false); }
  virtual void to(Device device, Dtype dtype, bool non_blocking = false);
  virtual void to(Dtype dtype, bool non_blocking = false);
  virtual void to(Device device, bool non_blocking = false);
  virtual void zero_grad(bool set_to_none = true);

  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);
  virtual bool is_serializable() const { return true; }
  /// Writes what stands before the list of the modules below: the name, and the options of layers.
  virtual void pretty_print(std::ostream& stream) const;
  std::string to_string() const override;

  /// This module as one of another class, null if it is none: `module.as<nn::Linear>()`.
  template <class M>
  typename M::ContainedType* as() noexcept {
    return as<typename M::ContainedType>();
  }
  template <class M>
  const typename M::ContainedType* as() const noexcept {
    return as<typename M::ContainedType>();
  }
  template <class M>
    requires std::derived_from<M, Module>
  M* as() noexcept {
    return dynamic_cast<M*>(this);
  }
  template <class M>
    requires std::derived_from<M, Module>
  const M* as() const noexcept {
    return dynamic_cast<const M*>(this);
  }

  /// Registers the tensor itself where it is a leaf.
  Tensor& register_parameter(const std::string& name, Tensor tensor, bool requires_grad = true);
  Tensor register_buffer(const std::string& name, Tensor tensor);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    register_child(name, module);
    return module;
  }
  template <class M>
  std::shared_ptr<M> register_module(std::string name, ModuleHolder<M> holder) {
    return register_module(std::move(name), holder.ptr());
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, std::shared_ptr<M> module) {
    replace_named_child(name, module);
    return module;
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, ModuleHolder<M> holder) {
    return replace_module(name, holder.ptr());
  }
  void unregister_module(const std::string& name);

  /// What forward takes where a call gives fewer arguments; see FORWARD_HAS_DEFAULT_ARGS.
  virtual detail::DefaultArguments forward_default_arguments() const { return {}; }

 protected:
  /// Makes this a handle to a layer of Tensora, whose parameters it then has.
  void adopt(const tensora::nn::Module& layer) { tensora::nn::Module::operator=(layer); }
  /// Writes the values of `fresh`, a layer of the same kind, into the parameters.
  void refill(const tensora::nn::Module& fresh);
  /// Makes this a clone of `other`, which is of the same class; see Cloneable.
  virtual void clone_(Module& other, const std::optional<Device>& device);
  /// Calls reset(), which Cloneable declares.
  virtual void make_anew() {}
  /// Gives `copy`, a copy of this module that shares its tensors, tensors of its own.
  std::shared_ptr<Module> finish_clone(std::unique_ptr<Module> copy,
                                       const std::optional<Device>& device) const;

 private:
  template <class Derived>
  friend class Cloneable;
  void copy_contents_of(const Module& original, const std::optional<Device>& device);
  void register_child(const std::string& name, std::shared_ptr<Module> module);
  void replace_named_child(const std::string& name, std::shared_ptr<Module> module);
  std::shared_ptr<Module> shared_from_this_checked() const;
  void print_tree(std::ostream& stream, const std::string& indentation) const;

  mutable std::optional<std::string> name_;
};

std::ostream& operator<<(std::ostream& stream, const Module& module);
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const std::shared_ptr<Module>& module);
serialize::InputArchive& operator>>(serialize::InputArchive& archive,
                                    const std::shared_ptr<Module>& module);

namespace detail {
[[noreturn]] void throw_empty_holder();
[[noreturn]] void throw_other_class();
}  // namespace detail

/// The base of modules that can be cloned: they make their parameters and modules in `reset`. Every
/// program instantiates it for a hundred modules, so most of its work is done by functions of
/// Module.
template <class Derived>
class Cloneable : public Module {
 public:
  using Module::Module;

  /// Makes all parameters and modules anew.
  virtual void reset() = 0;

  std::shared_ptr<Module> clone(const std::optional<Device>& device = {}) const override {
    const tensora::NoGradGuard no_grad;
    return finish_clone(std::unique_ptr<Module>(new Derived(static_cast<const Derived&>(*this))),
                        device);
  }

 private:
  void make_anew() override { reset(); }
  void clone_(Module& other, const std::optional<Device>& device) override {
    const std::shared_ptr<Module> copy = other.clone(device);
    const auto* same = dynamic_cast<const Derived*>(copy.get());
    if (!same) detail::throw_other_class();
    static_cast<Derived&>(*this) = *same;
  }
};

/// A handle to a module: `Linear fc{nullptr}; fc = Linear(3, 4); fc->weight; fc(x)`.
template <class Contained>
class ModuleHolder {
 public:
  using ContainedType = Contained;

  ModuleHolder() : impl_(std::make_shared<Contained>()) {}
  ModuleHolder(std::nullptr_t) {}  // NOLINT: implicit
  template <class Head, class... Tail>
    requires(!std::derived_from<std::decay_t<Head>, ModuleHolder> &&
             (sizeof...(Tail) > 0 || !std::convertible_to<Head, std::shared_ptr<Contained>>))
  explicit ModuleHolder(Head&& head, Tail&&... tail)
      : impl_(std::make_shared<Contained>(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}
  ModuleHolder(std::shared_ptr<Contained> module) : impl_(std::move(module)) {}  // NOLINT: implicit

  explicit operator bool() const noexcept { return impl_ != nullptr; }
  bool is_empty() const noexcept { return impl_ == nullptr; }
  Contained* operator->() { return get(); }
  const Contained* operator->() const { return get(); }
  Contained& operator*() { return *get(); }
  const Contained& operator*() const { return *get(); }
  const std::shared_ptr<Contained>& ptr() const {
    if (!impl_) detail::throw_empty_holder();
    return impl_;
  }
  Contained* get() {
    if (!impl_) detail::throw_empty_holder();
    return impl_.get();
  }
  const Contained* get() const {
    if (!impl_) detail::throw_empty_holder();
    return impl_.get();
  }
  template <class... Args, class M = Contained>
  auto operator()(Args&&... args)
      -> decltype(std::declval<M&>().forward(std::forward<Args>(args)...)) {
    return get()->forward(std::forward<Args>(args)...);
  }
  template <class Arg>
  decltype(auto) operator[](Arg&& arg) {
    return (*get())[std::forward<Arg>(arg)];
  }

 protected:
  std::shared_ptr<Contained> impl_;
};

template <class Contained>
std::ostream& operator<<(std::ostream& stream, const ModuleHolder<Contained>& module) {
  return stream << *module;
}
template <class Contained>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const ModuleHolder<Contained>& module) {
  return archive << std::static_pointer_cast<Module>(module.ptr());
}
template <class Contained>
serialize::InputArchive& operator>>(serialize::InputArchive& archive,
                                    ModuleHolder<Contained>& module) {
  return archive >> std::static_pointer_cast<Module>(module.ptr());
}

}  // namespace torch::nn

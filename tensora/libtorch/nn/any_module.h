#pragma once

// A module of any class, called with arguments whose types are checked at run time.

#include "tensora/libtorch/nn/module.h"

namespace torch::nn {

namespace detail {

template <class M>
struct ForwardOf;  // result and argument types of a module's forward
template <class Class, class R, class... Args>
struct ForwardOf<R (Class::*)(Args...)> {
  using Result = R;
  using Arguments = std::tuple<Args...>;
};
template <class Class, class R, class... Args>
struct ForwardOf<R (Class::*)(Args...) const> : ForwardOf<R (Class::*)(Args...)> {};

/// Adds the default arguments that a call left out; throws where the number is wrong.
void complete_arguments(const Module& module, std::vector<AnyValue>& arguments, size_t expected);
[[noreturn]] void throw_wrong_argument(size_t index, const std::type_info& expected,
                                       const std::type_info& given);
[[noreturn]] void throw_wrong_module(const std::type_info& wanted, const std::type_info& held);

template <class T>
decltype(auto) argument(std::vector<AnyValue>& arguments, size_t index) {
  using Held = std::remove_cv_t<std::remove_reference_t<T>>;
  Held* value = arguments[index].try_get<Held>();
  if (!value) throw_wrong_argument(index, typeid(Held), arguments[index].type_info());
  if constexpr (std::is_lvalue_reference_v<T>)
    return static_cast<Held&>(*value);
  else
    return static_cast<Held&&>(*value);
}

template <class M, class... Args>
AnyValue call_forward(M& module, std::vector<AnyValue> arguments,
                      std::type_identity<std::tuple<Args...>>) {
  complete_arguments(module, arguments, sizeof...(Args));
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return AnyValue(module.forward(argument<Args>(arguments, i)...));
  }(std::index_sequence_for<Args...>());
}

}  // namespace detail

class AnyModule {
 public:
  AnyModule() = default;
  template <std::derived_from<Module> M>
  explicit AnyModule(std::shared_ptr<M> module)
      : module_(module), type_(&typeid(M)), call_([](Module& any, std::vector<AnyValue> arguments) {
          using Forward = detail::ForwardOf<decltype(&M::forward)>;
          return detail::call_forward(static_cast<M&>(any), std::move(arguments),
                                      std::type_identity<typename Forward::Arguments>());
        }) {}
  template <class M>
    requires std::derived_from<std::decay_t<M>, Module>
  explicit AnyModule(M&& module)
      : AnyModule(std::make_shared<std::decay_t<M>>(std::forward<M>(module))) {}
  template <class M>
  explicit AnyModule(const ModuleHolder<M>& holder) : AnyModule(holder.ptr()) {}
  template <class M>
  AnyModule& operator=(std::shared_ptr<M> module) {
    return *this = AnyModule(std::move(module));
  }

  /// A copy whose module is a clone.
  AnyModule clone(std::optional<Device> device = {}) const;

  template <class... Args>
  AnyValue any_forward(Args&&... args) {
    check_not_empty("any_forward()");
    std::vector<AnyValue> values;
    values.reserve(sizeof...(Args));
    (values.push_back(as_value(std::forward<Args>(args))), ...);
    return call_(*module_, std::move(values));
  }
  template <class Result = Tensor, class... Args>
  Result forward(Args&&... args) {
    return any_forward(std::forward<Args>(args)...).template get<Result>();
  }

  template <class M, class = detail::ForwardOf<decltype(&M::forward)>>
  M& get() {
    check_not_empty("get()");
    if (*type_ != typeid(M)) detail::throw_wrong_module(typeid(M), *type_);
    return static_cast<M&>(*module_);
  }
  template <class M, class = detail::ForwardOf<decltype(&M::forward)>>
  const M& get() const {
    return const_cast<AnyModule*>(this)->get<M>();
  }
  template <class Holder, class Contained = typename Holder::ContainedType>
    requires std::derived_from<Holder, ModuleHolder<Contained>>
  Holder get() const {
    return Holder(ptr<Contained>());
  }
  std::shared_ptr<Module> ptr() const {
    check_not_empty("ptr()");
    return module_;
  }
  template <class M>
  std::shared_ptr<M> ptr() const {
    get<M>();
    return std::static_pointer_cast<M>(module_);
  }
  const std::type_info& type_info() const {
    check_not_empty("type_info()");
    return *type_;
  }
  bool is_empty() const noexcept { return module_ == nullptr; }

 private:
  void check_not_empty(const char* call) const;
  static AnyValue as_value(AnyValue value) { return value; }
  template <class T>
    requires(!std::same_as<std::decay_t<T>, AnyValue>)
  static AnyValue as_value(T&& value) {
    return AnyValue(std::forward<T>(value));
  }

  std::shared_ptr<Module> module_;
  const std::type_info* type_ = nullptr;
  AnyValue (*call_)(Module&, std::vector<AnyValue>) = nullptr;
};

/// A module under a name: `{"fc", Linear(3, 4)}`.
class NamedAnyModule {
 public:
  template <class M>
    requires(!std::same_as<std::decay_t<M>, AnyModule> && std::constructible_from<AnyModule, M>)
  NamedAnyModule(std::string name, M&& module)
      : NamedAnyModule(std::move(name), AnyModule(std::forward<M>(module))) {}
  NamedAnyModule(std::string name, AnyModule module)
      : name_(std::move(name)), module_(std::move(module)) {}
  const std::string& name() const noexcept { return name_; }
  AnyModule& module() noexcept { return module_; }
  const AnyModule& module() const noexcept { return module_; }

 private:
  std::string name_;
  AnyModule module_;
};

}  // namespace torch::nn

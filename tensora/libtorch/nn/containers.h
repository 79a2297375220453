#pragma once

// Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict and Functional.

#include "tensora/libtorch/nn/any_module.h"

namespace torch::nn {

class SequentialImpl : public Cloneable<SequentialImpl> {
 public:
  using Iterator = std::vector<AnyModule>::iterator;
  using ConstIterator = std::vector<AnyModule>::const_iterator;

  SequentialImpl() = default;
  template <class... Modules>
    requires(sizeof...(Modules) > 0 &&
             !(sizeof...(Modules) == 1 &&
               (std::derived_from<std::decay_t<Modules>, SequentialImpl> || ...)))
  explicit SequentialImpl(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }
  explicit SequentialImpl(OrderedDict<std::string, AnyModule>&& named) {
    for (auto& item : named) push_back(item.key(), std::move(item.value()));
  }
  explicit SequentialImpl(std::initializer_list<NamedAnyModule> named) {
    for (const auto& item : named) push_back(item.name(), item.module());
  }

  std::shared_ptr<Module> clone(const std::optional<Device>& device = {}) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Sequential"; }

  /// The result of the last module, each getting that of the one before it.
  template <class Result = Tensor, class... Inputs>
  Result forward(Inputs&&... inputs) {
    tensora::check(!is_empty(), "Cannot call forward() on an empty Sequential");
    AnyValue value = modules_.front().any_forward(std::forward<Inputs>(inputs)...);
    for (size_t i = 1; i < modules_.size(); ++i) value = modules_[i].any_forward(std::move(value));
    if (auto* result = value.template try_get<Result>()) return std::move(*result);
    tensora::fail("The type of the return value is ", detail::demangled(value.type_info()),
                  ", but you asked for type ", detail::demangled(typeid(Result)));
  }

  template <class M>
    requires std::constructible_from<AnyModule, M>
  void push_back(M&& module) {
    push_back(std::to_string(size()), std::forward<M>(module));
  }
  template <class M>
    requires std::constructible_from<AnyModule, M>
  void push_back(std::string name, M&& module) {
    push_back(std::move(name), AnyModule(std::forward<M>(module)));
  }
  void push_back(AnyModule module) { push_back(std::to_string(size()), std::move(module)); }
  void push_back(std::string name, AnyModule module);
  template <class Container>
  void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }

  Iterator begin() { return modules_.begin(); }
  ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator end() const { return modules_.end(); }
  template <class M>
  M& at(size_t index) {
    check_index(index);
    return modules_[index].get<M>();
  }
  template <class M>
  const M& at(size_t index) const {
    check_index(index);
    return modules_[index].get<M>();
  }
  std::shared_ptr<Module> ptr(size_t index) const {
    check_index(index);
    return modules_[index].ptr();
  }
  template <class M>
  std::shared_ptr<M> ptr(size_t index) const {
    check_index(index);
    return modules_[index].ptr<M>();
  }
  std::shared_ptr<Module> operator[](size_t index) const { return ptr(index); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  void check_index(size_t index) const;
  std::vector<AnyModule> modules_;
};

class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder::ModuleHolder;
  Sequential() = default;
  Sequential(std::initializer_list<NamedAnyModule> named)
      : ModuleHolder(std::make_shared<SequentialImpl>(named)) {}
  template <class... Args>
  auto operator()(Args&&... args) {
    return get()->forward(std::forward<Args>(args)...);
  }
};

class ModuleListImpl : public Cloneable<ModuleListImpl> {
 public:
  ModuleListImpl() = default;
  template <class... Modules>
    requires(sizeof...(Modules) > 0 &&
             !(sizeof...(Modules) == 1 &&
               (std::derived_from<std::decay_t<Modules>, ModuleListImpl> || ...)))
  explicit ModuleListImpl(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }

  std::shared_ptr<Module> clone(const std::optional<Device>& device = {}) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::ModuleList"; }

  void push_back(std::shared_ptr<Module> module);
  template <std::derived_from<Module> M>
  void push_back(M&& module) {
    push_back(std::make_shared<std::decay_t<M>>(std::forward<M>(module)));
  }
  template <class M>
  void push_back(const ModuleHolder<M>& holder) {
    push_back(std::shared_ptr<Module>(holder.ptr()));
  }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }
  void insert(size_t index, std::shared_ptr<Module> module);
  template <std::derived_from<Module> M>
  void insert(size_t index, M&& module) {
    insert(index, std::make_shared<std::decay_t<M>>(std::forward<M>(module)));
  }
  template <class M>
  void insert(size_t index, const ModuleHolder<M>& holder) {
    insert(index, std::shared_ptr<Module>(holder.ptr()));
  }

  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }
  template <class M>
  M& at(size_t index) {
    return *ptr<M>(index);
  }
  template <class M>
  const M& at(size_t index) const {
    return *ptr<M>(index);
  }
  std::shared_ptr<Module> ptr(size_t index) const;
  template <class M>
  std::shared_ptr<M> ptr(size_t index) const {
    auto module = std::dynamic_pointer_cast<M>(ptr(index));
    tensora::check(module != nullptr, "Unable to cast module[", index, "] to ",
                   detail::demangled(typeid(M)));
    return module;
  }
  std::shared_ptr<Module> operator[](size_t index) const { return ptr(index); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};
TORCH_MODULE(ModuleList);

class ModuleDictImpl : public Cloneable<ModuleDictImpl> {
 public:
  using Item = std::pair<std::string, std::shared_ptr<Module>>;
  ModuleDictImpl() = default;
  explicit ModuleDictImpl(const std::vector<Item>& modules) { update(modules); }
  explicit ModuleDictImpl(const OrderedDict<std::string, std::shared_ptr<Module>>& modules) {
    update(modules.pairs());
  }

  std::shared_ptr<Module> clone(const std::optional<Device>& device = {}) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::ModuleDict"; }

  std::vector<Item> items() const { return modules_.pairs(); }
  std::vector<std::string> keys() const { return modules_.keys(); }
  std::vector<std::shared_ptr<Module>> values() const { return modules_.values(); }
  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }
  size_t size() const noexcept { return modules_.size(); }
  bool empty() const noexcept { return modules_.is_empty(); }
  bool contains(const std::string& key) const noexcept { return modules_.contains(key); }
  void clear();
  std::shared_ptr<Module> pop(const std::string& key);
  void update(const std::vector<Item>& modules);
  void update(const ModuleDictImpl& other) { update(other.items()); }
  void update(const OrderedDict<std::string, std::shared_ptr<Module>>& other) {
    update(other.pairs());
  }
  std::shared_ptr<Module> operator[](const std::string& key) const { return modules_[key]; }
  template <class M>
  M& at(const std::string& key) {
    auto* module = modules_[key]->as<M>();
    tensora::check(module != nullptr, "Unable to cast module[", key, "] to ",
                   detail::demangled(typeid(M)));
    return *module;
  }

 private:
  OrderedDict<std::string, std::shared_ptr<Module>> modules_{"Module"};
};
TORCH_MODULE(ModuleDict);

class ParameterListImpl : public Cloneable<ParameterListImpl> {
 public:
  ParameterListImpl() = default;
  template <class... Tensors>
    requires(sizeof...(Tensors) > 0 && (std::convertible_to<Tensors, Tensor> && ...))
  explicit ParameterListImpl(Tensors&&... tensors) {
    (append(std::forward<Tensors>(tensors)), ...);
  }
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  void append(Tensor tensor) {
    const bool requires_grad = tensor.requires_grad();
    register_parameter(std::to_string(size()), std::move(tensor), requires_grad);
  }
  /// An element: its key is its position, as text.
  template <class Item>
    requires requires(const Item& item) {
      { item.value() } -> std::convertible_to<Tensor>;
    }
  void append(const Item& item) {
    append(Tensor(item.value()));
  }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& tensor : container) append(tensor);
  }
  ParameterListImpl& operator+=(const ParameterListImpl& other) {
    for (const Tensor& tensor : other.values()) append(tensor);
    return *this;
  }
  std::vector<Tensor> values() const { return parameters(false); }
  Tensor& at(size_t index);
  Tensor& operator[](size_t index) { return at(index); }
  class Iterator;
  Iterator begin() const;
  Iterator end() const;
  size_t size() const noexcept { return parameter_list().size(); }
  bool is_empty() const noexcept { return size() == 0; }
};

/// Walks the parameters as LibTorch does: `for (auto& item : *list) item.value()`.
class ParameterListImpl::Iterator {
 public:
  class Item {
   public:
    explicit Item(const tensora::nn::NamedTensors::value_type& entry) : entry_(&entry) {}
    const std::string& key() const { return entry_->first; }
    Tensor& value() const { return const_cast<Tensor&>(entry_->second); }
    Tensor& operator*() const { return value(); }
    Tensor* operator->() const { return &value(); }

   private:
    const tensora::nn::NamedTensors::value_type* entry_;
  };
  explicit Iterator(tensora::nn::NamedTensors::const_iterator place) : place_(place) {}
  Item operator*() const { return Item(*place_); }
  Iterator& operator++() {
    ++place_;
    return *this;
  }
  bool operator==(const Iterator&) const = default;

 private:
  tensora::nn::NamedTensors::const_iterator place_;
};
inline ParameterListImpl::Iterator ParameterListImpl::begin() const {
  return Iterator(parameter_list().begin());
}
inline ParameterListImpl::Iterator ParameterListImpl::end() const {
  return Iterator(parameter_list().end());
}
TORCH_MODULE(ParameterList);

class ParameterDictImpl : public Cloneable<ParameterDictImpl> {
 public:
  ParameterDictImpl() = default;
  explicit ParameterDictImpl(const OrderedDict<std::string, Tensor>& parameters) {
    for (const auto& item : parameters) insert(item.key(), item.value());
  }
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor& insert(std::string key, Tensor tensor) {
    const bool requires_grad = tensor.requires_grad();
    return register_parameter(key, std::move(tensor), requires_grad);
  }
  bool contains(const std::string& key) const noexcept { return find(key) != nullptr; }
  std::vector<std::string> keys() const { return named_parameters(false).keys(); }
  std::vector<Tensor> values() const { return parameters(false); }
  Tensor& get(const std::string& key);
  const Tensor& get(const std::string& key) const {
    return const_cast<ParameterDictImpl*>(this)->get(key);
  }
  Tensor& operator[](const std::string& key) { return get(key); }
  /// Removes the parameter and returns it.
  Tensor pop(const std::string& key);
  void clear();
  /// Replaces parameters that are there by those of `other`.
  void update(const ParameterDictImpl& other);
  size_t size() const noexcept { return parameter_list().size(); }
  bool empty() const noexcept { return size() == 0; }

 private:
  Tensor* find(const std::string& key) const noexcept;
};
TORCH_MODULE(ParameterDict);

/// A function as a module: `Functional(torch::relu)`, or with arguments bound behind the tensor.
class FunctionalImpl : public Cloneable<FunctionalImpl> {
 public:
  using Function = std::function<Tensor(Tensor)>;
  explicit FunctionalImpl(Function function) : function_(std::move(function)) {}
  template <class F, class... Args>
    requires(sizeof...(Args) > 0 && std::invocable<F&, const Tensor&, std::decay_t<Args>&...>)
  explicit FunctionalImpl(F function, Args&&... args)
      : function_([function, ... bound = std::decay_t<Args>(std::forward<Args>(args))](
                      const Tensor& x) { return function(x, bound...); }) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Functional()"; }
  Tensor forward(Tensor input) { return function_(std::move(input)); }
  Tensor operator()(Tensor input) { return forward(std::move(input)); }
  bool is_serializable() const override { return false; }

 private:
  Function function_;
};
TORCH_MODULE(Functional);

}  // namespace torch::nn

#pragma once

#include <memory>

#include "tensora/nn/layer.h"

namespace tensora::nn {

namespace detail {
/// The printed entries of a list; equal neighbours are folded: "(0-11): 12 x Block(…)".
std::vector<std::pair<std::string, std::string>> folded_entries(const NamedModules& modules);
/// Throws unless `index` is within the list.
void check_list_index(size_t index, size_t size);
}  // namespace detail

/// A list of modules of one class, or with `ModuleList<>` of any. It has no forward: loop over it.
///
///     nn::ModuleList<Block> layers = register_module("layers", nn::ModuleList<Block>());
///     layers.push_back(Block(512));
///     for (Block& block : layers) x = block(x);
template <class M = Module>
class ModuleList : public Layer<ModuleList<M>> {
 public:
  ModuleList() = default;
  ModuleList(std::initializer_list<M> modules)
    requires(!std::same_as<M, Module>)
  {
    for (const M& module : modules) push_back(module);
  }

  template <std::derived_from<M> Derived>
  void push_back(Derived module) {
    push_back(std::make_shared<Derived>(std::move(module)));
  }
  void push_back(std::shared_ptr<M> module) {
    this->add_child(std::to_string(size()), std::move(module));
  }

  size_t size() const { return this->child_list().size(); }
  bool is_empty() const { return size() == 0; }
  M& operator[](size_t index) const {
    detail::check_list_index(index, size());
    return static_cast<M&>(*this->child_list()[index].second);
  }

  class Iterator {
   public:
    using value_type = M;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    Iterator(const ModuleList* list, size_t index) : list_(list), index_(index) {}
    M& operator*() const { return (*list_)[index_]; }
    M* operator->() const { return &(*list_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++index_;
      return before;
    }
    bool operator==(const Iterator& other) const { return index_ == other.index_; }

   private:
    const ModuleList* list_ = nullptr;
    size_t index_ = 0;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

  std::string to_string() const override {
    return this->tree(detail::folded_entries(this->child_list()));
  }
};

/// Modules by name, in the order of insertion. It has no forward.
template <class M = Module>
class ModuleDict : public Layer<ModuleDict<M>> {
 public:
  ModuleDict() = default;

  template <std::derived_from<M> Derived>
  void insert(const std::string& name, Derived module) {
    this->add_child(name, std::make_shared<Derived>(std::move(module)));
  }
  void insert(const std::string& name, std::shared_ptr<M> module) {
    this->add_child(name, std::move(module));
  }
  bool contains(std::string_view name) const {
    for (const auto& [key, module] : this->child_list())
      if (key == name) return true;
    return false;
  }
  size_t size() const { return this->child_list().size(); }
  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const auto& [key, module] : this->child_list()) names.push_back(key);
    return names;
  }
  M& operator[](std::string_view name) const { return static_cast<M&>(this->get_submodule(name)); }
};

}  // namespace tensora::nn

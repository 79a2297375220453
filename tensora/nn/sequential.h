#pragma once

#include <memory>

#include "tensora/nn/layer.h"

namespace tensora::nn {

/// A module under a name, for the containers: `{"relu", nn::ReLU()}`.
struct NamedModule {
  template <std::derived_from<Module> M>
  NamedModule(std::string given_name, M given)
      : name(std::move(given_name)), module(std::make_shared<M>(std::move(given))) {}
  std::string name;
  ModulePtr module;
};

/// Modules that run one after the other, each on the result of the one before it.
class Sequential : public Layer<Sequential> {
 public:
  Sequential() = default;
  /// The modules are named "0", "1", …
  template <std::derived_from<Module>... M>
    requires(sizeof...(M) > 0 && !(sizeof...(M) == 1 && (std::same_as<M, Sequential> && ...)))
  explicit Sequential(M... modules) {
    (push_back(std::move(modules)), ...);
  }
  Sequential(std::initializer_list<NamedModule> modules);

  template <std::derived_from<Module> M>
  void push_back(M module) {
    push_back(std::make_shared<M>(std::move(module)));
  }
  void push_back(ModulePtr module);
  void push_back(const std::string& name, ModulePtr module);
  template <std::derived_from<Module> M>
  void push_back(const std::string& name, M module) {
    push_back(name, std::make_shared<M>(std::move(module)));
  }

  size_t size() const { return child_list().size(); }
  bool is_empty() const { return size() == 0; }
  Module& operator[](size_t index) const;
  template <class M>
  M& at(size_t index) const {
    return get<M>(name_of(index));
  }

  Tensor forward(const Tensor& input) const;

 private:
  const std::string& name_of(size_t index) const;
};

}  // namespace tensora::nn

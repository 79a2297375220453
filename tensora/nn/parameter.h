#pragma once

#include <memory>
#include <unordered_map>

#include "tensora/core/tensor.h"

namespace tensora::nn {

class Module;
struct ModuleState;

/// While one lives, copying a module, parameter or buffer in this thread copies its contents
/// instead of sharing them. What was shared among the originals is shared among the copies.
class CloneScope {
 public:
  CloneScope();
  ~CloneScope();
  CloneScope(const CloneScope&) = delete;
  CloneScope& operator=(const CloneScope&) = delete;

  /// Null outside of any scope.
  static CloneScope* current();
  Tensor copy_of(const Tensor& tensor);
  std::shared_ptr<ModuleState> copy_of(const std::shared_ptr<ModuleState>& state);

 private:
  CloneScope* outer_;
  std::unordered_map<const void*, Tensor> tensors_;
  std::unordered_map<const void*, std::shared_ptr<ModuleState>> states_;
};

/// A tensor that belongs to a module; the handle follows its module when that is cloned. Assigning
/// to a member of a layer registers the new tensor in the place of the old one, see Note
/// [Assignment to members] in nn/module_handles.h.
class ModuleTensor : public Tensor {
 public:
  ModuleTensor() = default;
  ModuleTensor(const ModuleTensor& other)
      : Tensor(CloneScope::current() ? CloneScope::current()->copy_of(other)
                                     : static_cast<const Tensor&>(other)) {}
  ModuleTensor(ModuleTensor&&) noexcept = default;
  ModuleTensor& operator=(const ModuleTensor& other) &;
  ModuleTensor& operator=(ModuleTensor&& other) & {  // NOLINT: it may throw, as the copy does
    return *this = static_cast<const ModuleTensor&>(other);
  }
  ~ModuleTensor() = default;

 protected:
  explicit ModuleTensor(const Tensor& tensor) : Tensor(tensor) {}
};

/// A tensor that a module learns. Undefined where a layer goes without it (`.bias = false`).
class Parameter : public ModuleTensor {
 public:
  Parameter() = default;
  /// Shares the array of `data`, outside of its graph.
  explicit Parameter(const Tensor& data, bool requires_grad = true);
  /// Another handle to a leaf that is a parameter already, so that two layers learn one weight.
  static Parameter shared(const Tensor& leaf);

 private:
  struct Shared {};
  Parameter(Shared, const Tensor& leaf) : ModuleTensor(leaf) {}
};

/// A tensor that belongs to a module's state and is not learned, such as a running mean.
class Buffer : public ModuleTensor {
 public:
  Buffer() = default;
  explicit Buffer(const Tensor& data) : ModuleTensor(data) {}
};

/// Where and of what dtype layers make their parameters while one of these lives in the thread:
/// `nn::FactoryScope on_gpu({.dtype = kBFloat16, .device = kCUDA});`. On the meta device a model
/// has shapes and no memory.
class FactoryScope {
 public:
  explicit FactoryScope(const TensorOptions& options);
  ~FactoryScope();
  FactoryScope(const FactoryScope&) = delete;
  FactoryScope& operator=(const FactoryScope&) = delete;

  /// What layers pass to the factories of their tensors.
  static TensorOptions current();

 private:
  TensorOptions outer_;
};

}  // namespace tensora::nn

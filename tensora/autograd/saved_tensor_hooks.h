#pragma once

#include <functional>
#include <memory>

#include "tensora/core/tensor.h"

namespace tensora {

/// What is kept in the place of a tensor that backward will need.
class PackedTensor {
 public:
  virtual ~PackedTensor() = default;
  /// The tensor again: of the same shape, dtype and device. Called once in each backward.
  virtual Tensor unpack() const = 0;
};

/// While it lives, what ops of this thread save for backward passes through `pack`: onto a disk, to
/// the host, into fewer bits. Of several scopes the innermost counts. `pack` must not change the
/// tensor. Gradients of gradients flow through what is unpacked as through the tensor itself.
class SavedTensorHooks {
 public:
  using Pack = std::function<std::unique_ptr<PackedTensor>(const Tensor&)>;

  explicit SavedTensorHooks(Pack pack);
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

  /// The packed tensor; null where no scope is open. For code that saves tensors.
  static std::unique_ptr<PackedTensor> pack(const Tensor& tensor);

 private:
  Pack pack_;
  SavedTensorHooks* outer_;
};

}  // namespace tensora

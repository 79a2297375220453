#pragma once

// Internal header: the dispatcher's side of tensors whose elements are in several places.

#include <atomic>

#include "tensora/dispatch/op.h"

// Note [Divided tensors]
// A divided tensor has no memory of its own: its elements lie in parts, on one device or several.
// It is recognized by its storage, which has no address and which `DividedTensors` knows. A call
// that has one among its inputs passes the one door as always: inputs are checked, `infer`
// describes whole outputs, history is recorded, versions are counted. Only where the kernel would
// run, DividedTensors runs the call on the parts. So gradients are the op's own rule on divided
// tensors, and a program needs no change. Tensors with memory pay nothing: the question is asked
// where an input has no address.

namespace tensora {

/// Runs calls on divided tensors; tensora/distributed has the one. See Note [Divided tensors].
class DividedTensors {
 public:
  DividedTensors() = default;
  DividedTensors(const DividedTensors&) = delete;
  DividedTensors& operator=(const DividedTensors&) = delete;
  virtual ~DividedTensors() = default;

  /// Whether the storage is one of a divided tensor.
  virtual bool holds(const Storage& storage) = 0;
  /// Computes the outputs, divided or not, which `infer` has described. Records no history.
  virtual Tensors run(const OpBase& op, Args inputs, const void* attrs, const Infer& infer) = 0;
  /// The same where output number i is written into `targets[i]`. An input may be a target.
  virtual void run_inplace(const OpBase& op, Args inputs, std::span<const Tensor> targets,
                           const void* attrs, const Infer& infer) = 0;
  /// A tensor of this shape, dtype and strides that is divided as `self` is, or not at all where
  /// that has the same elements everywhere or is a sum.
  virtual Tensor empty_like(const Tensor& self, const Strides& strides, DType dtype) = 0;
  /// The host is about to read or write elements: gives the storage memory with all of them, after
  /// which it is divided no more.
  virtual void gather(Storage& storage) = 0;
};

/// Null until a tensor is divided.
extern std::atomic<DividedTensors*> divided_tensors;

/// Whether a tensor without an address is divided.
inline bool is_divided(const Tensor& tensor) {
  DividedTensors* const known = divided_tensors.load(std::memory_order_acquire);
  return known && tensor.impl().storage && known->holds(*tensor.impl().storage);
}

}  // namespace tensora

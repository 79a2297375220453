#pragma once

#include "tensora/autograd/queued_node.h"
#include "tensora/autograd/saved_tensor_hooks.h"
#include "tensora/dispatch/op.h"

namespace tensora {

/// Whether two tensors may have elements in common. Several storages can be over one memory: a
/// tensor's `.data` in Python has one of its own.
inline bool shares_memory(const Tensor& a, const Tensor& b) {
  const Storage *first = a.impl().storage.get(), *second = b.impl().storage.get();
  return first == second || (first && second && first->data() && first->data() == second->data());
}

/// What hooks made of a tensor, and the history that it had.
struct PackedHistory {
  std::unique_ptr<PackedTensor> packed;
  Edge edge;
};

/// A tensor kept for backward, with the version it had.
struct SavedTensor {
  Tensor tensor;  // of a packed one, only while backward runs
  uint32_t version;
  int32_t slot;  // input i, or output -1 - i
  std::unique_ptr<PackedHistory> packed = nullptr;
};

/// A copy of an op's attributes, stored inline if they are small.
class OpAttrs {
 public:
  OpAttrs(const OpBase& op, const void* attrs) : op_(op) {
    memory_ = op.attrs_size <= sizeof inline_ ? inline_ : pool_allocate(op.attrs_size);
    op.copy_attrs(memory_, attrs);
  }
  ~OpAttrs() {
    op_.destroy_attrs(memory_);
    if (memory_ != inline_) pool_free(memory_, op_.attrs_size);
  }
  OpAttrs(const OpAttrs&) = delete;
  OpAttrs& operator=(const OpAttrs&) = delete;

  const void* get() const { return memory_; }

 private:
  const OpBase& op_;
  void* memory_;
  alignas(16) std::byte inline_[48];
};

/// The graph node of any op: its attributes, what it saved, and what its inputs looked like.
class OpNode final : public QueuedNode, public Pooled {
 public:
  OpNode(const OpBase& op, const void* attrs) : op_(op), attrs_(op, attrs) { note_caller(); }

  std::string_view name() const override { return op_.name; }
  Tensors backward(Tensors grads) override;
  void release() override;

  /// Adds the edges of the inputs and remembers their shapes.
  void connect(Args inputs);
  /// Saves what the gradients of the connected inputs need: inputs before the op runs (copies of
  /// those that the op is about to overwrite) ...
  void save_inputs(Args inputs, std::span<const Tensor> overwritten = {});
  /// ...and of the outputs after it.
  void save_outputs(std::span<const Tensor> outputs);

 private:
  friend class Vjp;
  const SavedTensor& saved(int32_t slot) const;
  void save(Tensor tensor, int32_t slot);
  void unpack();

  const OpBase& op_;
  Slots wanted_;  // what the gradients of the connected inputs need
  const OpAttrs attrs_;
  SmallVector<SavedTensor, 2> saved_;
  SmallVector<InputInfo, 2> inputs_;
  bool released_ = false;
  bool has_packed_ = false;
};

}  // namespace tensora

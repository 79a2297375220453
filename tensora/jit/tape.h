#pragma once

// Internal header: a list of kernels that were deferred, in program order.

#include <vector>

#include "tensora/dispatch/deferral.h"

namespace tensora::jit {

/// A copy of an op's attributes.
class KernelAttrs {
 public:
  KernelAttrs(const OpBase& op, const void* attrs) : op_(&op), copy_(pool_allocate(op.attrs_size)) {
    op.copy_attrs(copy_, attrs);
  }
  KernelAttrs(KernelAttrs&& other) noexcept
      : op_(other.op_), copy_(std::exchange(other.copy_, nullptr)) {}
  KernelAttrs(const KernelAttrs&) = delete;
  KernelAttrs& operator=(const KernelAttrs&) = delete;
  KernelAttrs& operator=(KernelAttrs&&) = delete;
  ~KernelAttrs() {
    if (!copy_) return;
    op_->destroy_attrs(copy_);
    pool_free(copy_, op_->attrs_size);
  }
  const void* get() const { return copy_; }
  /// Takes other attributes of the same op.
  void renew(const void* attrs) {
    op_->destroy_attrs(copy_);
    op_->copy_attrs(copy_, attrs);
  }

 private:
  const OpBase* op_;
  void* copy_;
};

/// A tensor as a kernel sees it: part of a storage. The address in `view` is valid only while the
/// kernel runs.
struct Operand {
  int memory = -1;  // position in Tape::memories; -1: an optional input that is undefined
  int64_t offset_bytes = 0;
  View view;
};

struct TapeNode {
  const OpBase* op;
  KernelAttrs attrs;
  Device device;
  DType compute_dtype;
  uint32_t first;  // of its operands in Tape::operands: the inputs, then the outputs
  uint32_t inputs, outputs;
  bool after_read = false;  // the host has read memory before the call, perhaps to describe it
};

/// A storage that the kernels of a tape use.
struct Memory {
  IntrusivePtr<Storage> storage;
  bool made_here = false;            // had no memory when the tape first met it
  IntrusivePtr<Storage> owner = {};  // of the memory that the storage has taken over, if it has
};

/// Finds a storage's number.
class StorageNumbers {
 public:
  /// -1 if it has none.
  int find(const Storage* storage) const;
  void add(const Storage* storage, int number);
  void clear();

 private:
  struct Slot {
    const Storage* storage = nullptr;
    int number = 0;
  };
  size_t start(const Storage* storage) const;
  std::vector<Slot> slots_;  // a power of two of them, at most half full
  size_t used_ = 0;
};

/// Kernels in the order in which the program called them, with the storages they use.
class Tape {
 public:
  size_t size() const { return nodes_.size(); }
  bool empty() const { return nodes_.empty(); }
  void add(const DeferredKernel& kernel, bool after_read);
  bool holds(const Storage& storage) const { return numbers_.find(&storage) >= 0; }
  /// Whether kernels use this storage, or another one over the same memory.
  bool uses_memory_of(const Storage& storage) const;
  void clear();

  std::span<const TapeNode> nodes() const { return nodes_; }
  std::span<const Memory> memories() const { return memories_; }
  std::span<const Operand> inputs(const TapeNode& node) const {
    return {operands_.data() + node.first, node.inputs};
  }
  std::span<const Operand> outputs(const TapeNode& node) const {
    return {operands_.data() + node.first + node.inputs, node.outputs};
  }
  /// Whether nobody but the tape has tensors in this storage: what no later kernel reads is never
  /// seen.
  bool is_dead(int memory) const {
    const Memory& entry = memories_[static_cast<size_t>(memory)];
    return entry.made_here && entry.storage->use_count() == 1;
  }

  const Operand& operand(uint32_t position) const { return operands_[position]; }
  /// The operand's view with its address; its storage gets memory if it has none.
  const View& placed(uint32_t position);
  /// Runs a node's own kernel.
  void run(size_t node);
  /// Reads `to` wherever `from`, which nobody else has tensors in, was read.
  void merge(int from, int to);
  /// The memories of all operands; `set_memory_numbers` takes merges back with them.
  std::vector<int> memory_numbers() const;
  void set_memory_numbers(std::span<const int> numbers);
  /// The same kernels on memories that `set_storages` names before they run.
  Tape without_storages() const;
  void set_storages(std::span<const IntrusivePtr<Storage>> storages);
  void set_storage(int memory, const IntrusivePtr<Storage>& storage) {
    memories_[static_cast<size_t>(memory)].storage = storage;
  }
  void set_attrs(size_t node, const void* attrs) { nodes_[node].attrs.renew(attrs); }
  /// Makes `to`, which has no memory yet, use that of `from`.
  void take_memory(int to, int from);
  /// Gives up the contents of a storage that only the tape has.
  void drop(int memory) {
    Memory& entry = memories_[static_cast<size_t>(memory)];
    entry.storage = Storage::defer(entry.storage->bytes(), entry.storage->device());
    entry.owner.reset();
  }
  /// Gives up a storage, which no kernel that is still to run uses.
  void release(int memory) {
    memories_[static_cast<size_t>(memory)].storage.reset();
    memories_[static_cast<size_t>(memory)].owner.reset();
  }

 private:
  friend class PreparedTape;
  int number_of(const IntrusivePtr<Storage>& storage);
  void add_operand(const Tensor& tensor);

  std::vector<TapeNode> nodes_;
  std::vector<Operand> operands_;
  std::vector<Memory> memories_;
  StorageNumbers numbers_;
};

}  // namespace tensora::jit

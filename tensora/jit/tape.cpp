#include "tensora/jit/tape.h"

#include <algorithm>

#include "tensora/dispatch/profiler.h"

namespace tensora::jit {

size_t StorageNumbers::start(const Storage* storage) const {
  const uint64_t mixed = reinterpret_cast<uintptr_t>(storage) * 0x9E37'79B9'7F4A'7C15;
  return static_cast<size_t>(mixed >> 32) & (slots_.size() - 1);
}

int StorageNumbers::find(const Storage* storage) const {
  if (used_ == 0) return -1;
  for (size_t i = start(storage); slots_[i].storage; i = (i + 1) & (slots_.size() - 1))
    if (slots_[i].storage == storage) return slots_[i].number;
  return -1;
}

void StorageNumbers::add(const Storage* storage, int number) {
  if (2 * (used_ + 1) > slots_.size()) {
    std::vector<Slot> old(std::max<size_t>(64, 2 * slots_.size()));
    old.swap(slots_);
    used_ = 0;
    for (const Slot& slot : old)
      if (slot.storage) add(slot.storage, slot.number);
  }
  size_t i = start(storage);
  while (slots_[i].storage) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = {storage, number};
  ++used_;
}

void StorageNumbers::clear() {
  if (used_ != 0) std::fill(slots_.begin(), slots_.end(), Slot());
  used_ = 0;
}

int Tape::number_of(const IntrusivePtr<Storage>& storage) {
  int number = numbers_.find(storage.get());
  if (number < 0) {
    number = static_cast<int>(memories_.size());
    memories_.push_back({storage, storage->data() == nullptr, {}});
    numbers_.add(storage.get(), number);
  }
  return number;
}

void Tape::add_operand(const Tensor& tensor) {
  if (!tensor.defined()) {
    operands_.emplace_back();
    return;
  }
  const TensorImpl& impl = tensor.impl();
  const int memory = number_of(impl.storage);
  operands_.emplace_back(memory, bytes_of(impl.view.dtype, impl.offset), impl.view);
}

void Tape::add(const DeferredKernel& kernel, bool after_read) {
  const auto first = static_cast<uint32_t>(operands_.size());
  nodes_.push_back({&kernel.op, KernelAttrs(kernel.op, kernel.attrs), kernel.device,
                    kernel.compute_dtype, first, static_cast<uint32_t>(kernel.inputs.size()),
                    static_cast<uint32_t>(kernel.outputs.size()), after_read});
  for (const Arg& input : kernel.inputs) add_operand(*input);
  for (const Tensor& output : kernel.outputs) add_operand(output);
}

bool Tape::uses_memory_of(const Storage& storage) const {
  if (holds(storage)) return true;
  const auto first = reinterpret_cast<uintptr_t>(storage.data());
  if (first == 0) return false;
  for (const Memory& memory : memories_) {
    if (!memory.storage) continue;  // the tape is followed, and has not met it yet
    const auto other = reinterpret_cast<uintptr_t>(memory.storage->data());
    if (other != 0 && other < first + storage.bytes() && first < other + memory.storage->bytes())
      return true;
  }
  return false;
}

void Tape::clear() {
  nodes_.clear();
  operands_.clear();
  memories_.clear();
  numbers_.clear();
}

void Tape::merge(int from, int to) {
  for (Operand& operand : operands_)
    if (operand.memory == from) operand.memory = to;
}

std::vector<int> Tape::memory_numbers() const {
  std::vector<int> numbers;
  numbers.reserve(operands_.size());
  for (const Operand& operand : operands_) numbers.push_back(operand.memory);
  return numbers;
}

void Tape::set_memory_numbers(std::span<const int> numbers) {
  for (size_t i = 0; i < operands_.size(); ++i) operands_[i].memory = numbers[i];
}

Tape Tape::without_storages() const {
  Tape copy;
  for (const TapeNode& node : nodes_)
    copy.nodes_.push_back({node.op, KernelAttrs(*node.op, node.attrs.get()), node.device,
                           node.compute_dtype, node.first, node.inputs, node.outputs,
                           node.after_read});
  copy.operands_ = operands_;
  for (Operand& operand : copy.operands_) operand.view.data = nullptr;
  for (const Memory& memory : memories_) copy.memories_.push_back({{}, memory.made_here, {}});
  return copy;
}

void Tape::take_memory(int to, int from) {
  Memory& target = memories_[static_cast<size_t>(to)];
  const Memory& source = memories_[static_cast<size_t>(from)];
  if (target.storage->data() || !source.storage->data()) return;
  // A long chain of such storages would be destroyed by as deep a recursion: all own the first.
  target.owner = source.owner ? source.owner : source.storage;
  target.storage->provide(source.storage->data(), Owner(target.owner));
}

void Tape::set_storages(std::span<const IntrusivePtr<Storage>> storages) {
  for (size_t i = 0; i < memories_.size(); ++i) memories_[i].storage = storages[i];
}

const View& Tape::placed(uint32_t position) {
  Operand& operand = operands_[position];
  Storage& storage = *memories_[static_cast<size_t>(operand.memory)].storage;
  if (!storage.data() && storage.bytes() != 0) storage.provide();
  operand.view.data =
      storage.data() ? static_cast<char*>(storage.data()) + operand.offset_bytes : nullptr;
  return operand.view;
}

void Tape::run(size_t node) {
  const TapeNode& now = nodes_[node];
  SmallVector<const View*, 8> views;
  for (uint32_t i = 0; i < now.inputs + now.outputs; ++i)
    views.push_back(operands_[now.first + i].memory < 0 ? nullptr : &placed(now.first + i));
  const ProfilerRange range(now.op->name);
  now.op->run_kernel(*now.op,
                     {.op = now.op->name,
                      .in = {views.data(), now.inputs},
                      .out = {views.data() + now.inputs, now.outputs},
                      .device = now.device,
                      .compute_dtype = now.compute_dtype},
                     now.attrs.get());
}

}  // namespace tensora::jit

#include "tensora/jit/prepared_tape.h"

#include <algorithm>

// Note [Following a tape]
// A program mostly does what it did before. A tape that was planned before is therefore kept with
// its plan. When the program comes back to its first op, each call is compared with the next node:
// op, layouts, and which operands share a storage. While they agree, only the storages and
// attributes are taken; nothing is added to a tape, and at the end the plan is known without a
// look at the cache. Where a call differs, another kept tape with the same beginning takes over; if
// there is none, what was taken becomes an ordinary tape, to which the rest is added.
// What is compared is exactly what the cache's key holds (key_of in plan_cache.cpp).

namespace tensora::jit {
namespace {

constexpr uint8_t kUnknown = 2;

}  // namespace

TapeEnd::TapeEnd(const Tape& tape) : numbers(tape.memory_numbers()) {
  dead.reserve(tape.memories().size());
  for (size_t m = 0; m < tape.memories().size(); ++m)
    dead.push_back(tape.is_dead(static_cast<int>(m)));
}

PreparedTape::PreparedTape(Tape tape, TapeEnd end, PlanOptions options,
                           std::shared_ptr<const Plan> plan)
    : tape_(std::move(tape)),
      end_(std::move(end)),
      options_(options),
      plan_(std::move(plan)),
      counts_(counts_of(*plan_)),
      taken_(tape_.size()),
      met_(tape_.memories().size()) {
  counts_.followed = 1;
  for (const TapeNode& node : tape_.nodes()) {
    Words& words = attrs_.emplace_back(static_cast<uint32_t>(words_.size()), 0u, false);
    const AttrWords list = node.op->attr_words(node.attrs.get());
    words.none = list.empty();
    if (!plans_read_attrs(*node.op, node.inputs)) continue;
    words_.insert(words_.end(), list.begin(), list.end());
    words.count = static_cast<uint32_t>(words_.size()) - words.first;
  }
  wrapped_.resize(tape_.operands_.size(), kUnknown);
  for (const Memory& memory : tape_.memories()) bytes_.push_back(memory.storage->bytes());
}

// `met` has the storages that the tape has not met before this node.
bool PreparedTape::operand_matches(uint32_t position, const Tensor& tensor, Met& met) const {
  const int number = end_.numbers[position];
  if (!tensor.defined() || number < 0) return !tensor.defined() && number < 0;
  const TensorImpl& impl = tensor.impl();
  const Operand& operand = tape_.operands_[position];
  const View &view = impl.view, &expected = operand.view;
  if (view.dtype != expected.dtype || !(view.device == expected.device) ||
      view.sizes != expected.sizes || view.strides != expected.strides ||
      bytes_of(view.dtype, impl.offset) != operand.offset_bytes)
    return false;
  const auto index = static_cast<size_t>(number);
  const Storage* const storage = impl.storage.get();
  if (index < met_) return tape_.memories_[index].storage.get() == storage;
  if (index < met_ + met.size()) return met[index - met_]->get() == storage;
  // The program alone holds a storage that is just being made.
  if (storage->use_count() != 1 && tape_.holds(*storage)) return false;
  for (const IntrusivePtr<Storage>* other : met)
    if (other->get() == storage) return false;
  if ((storage->data() == nullptr) != tape_.memories_[index].made_here ||
      storage->bytes() != bytes_[index])
    return false;
  met.push_back(&impl.storage);
  return true;
}

bool PreparedTape::call_matches(const TapeNode& node, const DeferredKernel& kernel) const {
  return node.op == &kernel.op && node.inputs == kernel.inputs.size() &&
         node.outputs == kernel.outputs.size() && node.device == kernel.device &&
         node.compute_dtype == kernel.compute_dtype;
}

bool PreparedTape::attrs_match(size_t index, const void* attrs) const {
  const TapeNode& node = tape_.nodes_[index];
  if (!plans_read_attrs(*node.op, node.inputs)) return true;
  const auto words = node.op->attr_words(attrs);
  const auto known = words_.begin() + attrs_[index].first;
  if (std::equal(words.begin(), words.end(), known, known + attrs_[index].count)) return true;
  return serves_attrs(node, tape_.operands_[node.first], node.attrs.get(), attrs);
}

// Takes the next node, and the storages that it is the first to use.
void PreparedTape::take(const Met& met) {
  for (const IntrusivePtr<Storage>* storage : met) {
    tape_.numbers_.add(storage->get(), static_cast<int>(met_));
    tape_.memories_[met_++].storage = *storage;
  }
  ++taken_;
}

bool PreparedTape::follow(const DeferredKernel& kernel, bool after_read) {
  if (taken_ == tape_.nodes_.size()) return false;
  TapeNode& node = tape_.nodes_[taken_];
  if (!call_matches(node, kernel)) return false;
  Met met;
  uint32_t position = node.first;
  for (const Arg& input : kernel.inputs)
    if (!operand_matches(position++, *input, met)) return false;
  for (const Tensor& output : kernel.outputs)
    if (!operand_matches(position++, output, met)) return false;
  if (!attrs_match(taken_, kernel.attrs)) return false;
  node.after_read |= after_read;
  position = node.first;
  for (const Arg& input : kernel.inputs)
    wrapped_[position++] = default_dtype != tensora::default_dtype()
                               ? kUnknown
                               : input->defined() && input->impl().wrapped_number;
  node.attrs.renew(kernel.attrs);
  take(met);
  return true;
}

// Bytes between the attributes may differ where the attributes do not.
bool PreparedTape::same_bits(const TapeNode& node, const void* attrs) const {
  return attrs_[taken_].none ||
         __builtin_memcmp(node.attrs.get(), attrs, node.op->attrs_size) == 0 ||
         (!node.op->random && attrs_equal(*node.op, node.attrs.get(), attrs));
}

// Whether the node's outputs are new tensors in storages of their own. `first` storages are met
// before them.
bool PreparedTape::makes_outputs(const TapeNode& node, size_t first) const {
  for (uint32_t k = 0; k < node.outputs; ++k) {
    const uint32_t position = node.first + node.inputs + k;
    if (end_.numbers[position] != static_cast<int>(first + k) ||
        !tape_.memories_[first + k].made_here || tape_.operands_[position].offset_bytes != 0)
      return false;
  }
  return true;
}

bool PreparedTape::foresee(const OpBase& op, Args inputs, const void* attrs, Device device,
                           Tensors& outputs) {
  if (taken_ == tape_.nodes_.size()) return false;
  const TapeNode& node = tape_.nodes_[taken_];
  if (node.op != &op || node.inputs != inputs.size() || !(node.device == device) ||
      node.after_read || !same_bits(node, attrs))
    return false;
  Met met;
  uint32_t position = node.first;
  for (const Arg& input : inputs) {
    if (wrapped_[position] != (input->defined() && input->impl().wrapped_number)) return false;
    if (!operand_matches(position++, *input, met)) return false;
  }
  // An input that has no memory yet belongs to this thread, or the call fails.
  for (const IntrusivePtr<Storage>* storage : met)
    if (!(*storage)->data() && (*storage)->bytes() != 0) return false;
  if (default_dtype != tensora::default_dtype() || !makes_outputs(node, met_ + met.size()))
    return false;
  const size_t first = met_ + met.size();
  for (uint32_t k = 0; k < node.outputs; ++k) {
    const View& view = tape_.operands_[position + k].view;
    auto impl = IntrusivePtr<TensorImpl>::adopt(new TensorImpl);
    impl->view = view;
    impl->view.data = nullptr;
    impl->storage = Storage::defer(bytes_[first + k], view.device);
    outputs.push_back(Tensor(std::move(impl)));
  }
  for (const Tensor& output : outputs) met.push_back(&output.impl().storage);
  take(met);
  return true;
}

bool PreparedTape::could_follow(const DeferredKernel& kernel, size_t count) const {
  return count < tape_.size() && call_matches(tape_.nodes_[count], kernel);
}

bool PreparedTape::node_equals(const PreparedTape& other, size_t index) const {
  const TapeNode &a = tape_.nodes_[index], &b = other.tape_.nodes_[index];
  if (a.op != b.op || a.inputs != b.inputs || a.outputs != b.outputs || !(a.device == b.device) ||
      a.compute_dtype != b.compute_dtype)
    return false;
  for (uint32_t i = a.first; i < a.first + a.inputs + a.outputs; ++i) {
    const Operand &x = tape_.operands_[i], &y = other.tape_.operands_[i];
    if (end_.numbers[i] != other.end_.numbers[i]) return false;
    if (x.view.dtype != y.view.dtype || !(x.view.device == y.view.device) ||
        x.view.sizes != y.view.sizes || x.view.strides != y.view.strides ||
        x.offset_bytes != y.offset_bytes)
      return false;
  }
  return attrs_match(index, b.attrs.get());
}

bool PreparedTape::take_over(PreparedTape& other) {
  if (size() < other.taken_ || bytes_.size() < other.met_) return false;
  for (size_t m = 0; m < other.met_; ++m)
    if (bytes_[m] != other.bytes_[m] ||
        tape_.memories_[m].made_here != other.tape_.memories_[m].made_here)
      return false;
  for (size_t i = 0; i < other.taken_; ++i)
    if (!node_equals(other, i)) return false;
  for (size_t i = 0; i < other.taken_; ++i)
    tape_.nodes_[i].attrs.renew(other.tape_.nodes_[i].attrs.get());
  for (size_t m = 0; m < other.met_; ++m)
    tape_.memories_[m].storage = std::move(other.tape_.memories_[m].storage);
  std::swap(tape_.numbers_, other.tape_.numbers_);
  taken_ = other.taken_;
  met_ = other.met_;
  other.rewind();
  return true;
}

bool PreparedTape::is_complete() {
  if (taken_ != tape_.size() || met_ != bytes_.size()) return false;
  for (size_t m = 0; m < met_; ++m)
    if (tape_.is_dead(static_cast<int>(m)) != (end_.dead[m] != 0)) return false;
  // The same addresses as before, or others that do not overlap either.
  size_t count = 0;
  bool known = true;
  for (const Memory& memory : tape_.memories_) {
    const std::pair<const void*, size_t> range(memory.storage->data(), memory.storage->bytes());
    if (range.first == nullptr) continue;
    if (count == apart_.size()) apart_.emplace_back();
    known = known && apart_[count] == range;
    apart_[count++] = range;
  }
  if (!known && storages_overlap(tape_)) {
    apart_.clear();
    return false;
  }
  return merges_hold(tape_, plan_->rewrite);
}

Tape PreparedTape::leave() {
  Tape tape;
  for (size_t i = 0; i < taken_; ++i) {
    const TapeNode& node = tape_.nodes_[i];
    tape.nodes_.push_back({node.op, KernelAttrs(*node.op, node.attrs.get()), node.device,
                           node.compute_dtype, node.first, node.inputs, node.outputs,
                           node.after_read});
  }
  if (taken_ != 0) {
    const TapeNode& last = tape_.nodes_[taken_ - 1];
    const auto end = tape_.operands_.begin() + last.first + last.inputs + last.outputs;
    tape.operands_.assign(tape_.operands_.begin(), end);
    for (size_t i = 0; i < tape.operands_.size(); ++i) tape.operands_[i].memory = end_.numbers[i];
  }
  for (size_t m = 0; m < met_; ++m)
    tape.memories_.push_back(
        {std::move(tape_.memories_[m].storage), tape_.memories_[m].made_here, {}});
  std::swap(tape.numbers_, tape_.numbers_);
  rewind();
  return tape;
}

void PreparedTape::rewind() {
  taken_ = met_ = 0;
  tape_.numbers_.clear();
  for (size_t m = 0; m < tape_.memories_.size(); ++m) tape_.release(static_cast<int>(m));
}

}  // namespace tensora::jit

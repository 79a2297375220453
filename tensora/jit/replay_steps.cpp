#include "tensora/core/deferred.h"
#include "tensora/jit/plan_key.h"
#include "tensora/jit/replay_recording.h"

namespace tensora::jit {
namespace {

/// Compares what a host step calls with the recorded nodes, and takes the attributes. Once a call
/// is another one, everything before it runs, and it and what follows run at once.
class StepFollower final : public Deferral {
 public:
  StepFollower(const Recording::State& recording, Tape& tape,
               std::vector<IntrusivePtr<Storage>>& storages)
      : recording_(recording), tape_(tape), storages_(storages) {
    for (size_t i = 0; i < storages.size(); ++i)
      numbers_.add(storages[i].get(), static_cast<int>(i));
  }

  void run(const RecordedStep& step) {
    next_ = step.first;
    last_ = step.last;
    if (left_) run_nodes(step.first);
    {
      const struct Installed {
        Deferral* const before = thread_state.deferral;
        explicit Installed(Deferral* now) { thread_state.deferral = now; }
        ~Installed() { thread_state.deferral = before; }
      } installed(left_ ? nullptr : this);
      try {
        step.step.run();
      } catch (...) {
        leave();
        throw;
      }
      if (next_ != last_) leave();
    }
    if (left_) ran_ = last_;
  }

  bool finish() {
    if (left_) {
      run_nodes(tape_.size());
    } else {
      recording_.let_go(storages_);
      jit::run(tape_, *recording_.plan);
    }
    return !left_;
  }

  void defer(const DeferredKernel& kernel) override {
    if (next_ < last_ && matches(kernel)) {
      ++next_;
      return;
    }
    leave();
    Tape alone;
    alone.add(kernel, false);
    alone.run(0);
  }
  void hold(const IntrusivePtr<Storage>& storage) override {
    if (storage->bytes() != 0) storage->provide();
  }
  void settle(const Storage& storage) override {
    if (holds(storage)) leave();
  }
  void flush() override { leave(); }
  bool holds(const Storage& storage) const override { return numbers_.find(&storage) >= 0; }

 private:
  // Nodes up to `end` that have not run.
  void run_nodes(size_t end) {
    const std::vector<bool>& left_out = recording_.plan->rewrite.left_out;
    for (; ran_ < end; ++ran_)
      if (left_out.empty() || !left_out[ran_]) tape_.run(ran_);
  }
  void leave() {
    if (std::exchange(left_, true)) return;
    thread_state.deferral = nullptr;
    run_nodes(next_);
  }

  bool is_number(int memory, const Storage& storage) const {
    const Origin& origin = recording_.origins[static_cast<size_t>(memory)];
    return origin.kind == Origin::Kind::number && storage.data() &&
           storage.bytes() == origin.bytes && storage.device().is_cpu() &&
           __builtin_memcmp(storage.data(), origin.captured->data(), origin.bytes) == 0;
  }

  // Whether the tensor is this operand. New results take the place of those that were prepared.
  bool is_operand(const Tensor& tensor, const Operand& operand, bool output) {
    if (!tensor.defined() || operand.memory < 0) return !tensor.defined() && operand.memory < 0;
    const TensorImpl& impl = tensor.impl();
    const View &view = impl.view, &wanted = operand.view;
    if (view.dtype != wanted.dtype || view.sizes != wanted.sizes ||
        view.strides != wanted.strides || !(view.device == wanted.device) ||
        bytes_of(view.dtype, impl.offset) != operand.offset_bytes)
      return false;
    const auto memory = static_cast<size_t>(operand.memory);
    const int number = numbers_.find(impl.storage.get());
    if (number >= 0) return number == operand.memory;
    if (!output) return is_number(operand.memory, *impl.storage);
    if (recording_.origins[memory].kind != Origin::Kind::made ||
        recording_.first_uses[memory] != next_ ||
        impl.storage->bytes() != recording_.origins[memory].bytes)
      return false;
    storages_[memory] = impl.storage;
    numbers_.add(impl.storage.get(), operand.memory);
    tape_.set_storage(operand.memory, impl.storage);
    return true;
  }

  bool matches(const DeferredKernel& kernel) {
    const TapeNode& node = tape_.nodes()[next_];
    if (node.op != &kernel.op || node.inputs != kernel.inputs.size() ||
        node.outputs != kernel.outputs.size() || !(node.device == kernel.device) ||
        node.compute_dtype != kernel.compute_dtype)
      return false;
    if (!serves_attrs(node, tape_.operand(node.first), node.attrs.get(), kernel.attrs))
      return false;
    for (uint32_t i = 0; i < node.inputs; ++i)
      if (!is_operand(*kernel.inputs[i], tape_.inputs(node)[i], false)) return false;
    for (uint32_t i = 0; i < node.outputs; ++i)
      if (!is_operand(kernel.outputs[i], tape_.outputs(node)[i], true)) return false;
    tape_.set_attrs(next_, kernel.attrs);
    return true;
  }

  const Recording::State& recording_;
  Tape& tape_;
  std::vector<IntrusivePtr<Storage>>& storages_;
  StorageNumbers numbers_;
  size_t ran_ = 0;              // nodes that have run, one by one
  size_t next_ = 0, last_ = 0;  // nodes of the step
  bool left_ = false;
};

}  // namespace

void set_gradients(const Recording::State& recording, std::span<const RecordedTensor> gradients,
                   std::span<const IntrusivePtr<Storage>> storages,
                   std::span<const Tensor> arguments) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    const RecordedLeaf& leaf = recording.leaves[i];
    // A gradient that is there already stays the tensor that it is.
    if (leaf.reads && gradients[i] == leaf.before) continue;
    leaf.accumulator(arguments).set_grad(gradients[i].in(storages));
  }
}

bool run_with_steps(const Recording::State& recording, Tape& tape,
                    std::vector<IntrusivePtr<Storage>>& storages,
                    std::span<const Tensor> arguments) {
  StepFollower follower(recording, tape, storages);
  for (const RecordedStep& step : recording.steps) {
    set_gradients(recording, step.gradients, storages, arguments);
    follower.run(step);
  }
  // What the body leaves is there before the kernels run, so that gradients in between are gone.
  for (const RecordedLeaf& leaf : recording.leaves)
    if (!leaf.keeps) leaf.accumulator(arguments).set_grad(leaf.after.in(storages));
  return follower.finish();
}

}  // namespace tensora::jit

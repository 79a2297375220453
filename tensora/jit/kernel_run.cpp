#include <atomic>
#include <bit>
#include <chrono>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/backend.h"
#include "tensora/core/determinism.h"
#include "tensora/jit/kernel_tuning.h"

namespace tensora::jit {

struct AnyKernel::State {
  std::string name;
  Function body;
  Tuner tuner;
  std::atomic<bool> is_tunable = false;  // a recording named a tunable

  /// What the body records; `tunables`, if given, gets those that it names.
  BlockProgram record(std::span<const View> arrays, std::span<const Scalar> numbers,
                      const TunableChoice& choice, std::vector<Tunable>* tunables = nullptr) const {
    KernelRecording recording(name, arrays, choice);
    body(recording.handles(), numbers);
    if (tunables) *tunables = recording.tunables();
    return recording.finish();
  }
};

namespace {

// Kernels of the same dtypes and of sizes in the same powers of two share what was tuned.
std::string signature_of(std::span<const View> arrays) {
  std::string text = concat(arrays[0].device, " ");
  for (const View& view : arrays) {
    text += concat(view.dtype);
    for (int64_t size : view.sizes)
      text += concat(",", std::bit_width(static_cast<uint64_t>(size)));
    text += ";";
  }
  return text;
}

std::vector<View> views_of(const std::string& name, std::span<const Tensor> tensors) {
  check(!tensors.empty(), "kernel ", name, ": needs a tensor");
  std::vector<View> views;
  for (size_t i = 0; i < tensors.size(); ++i) {
    check(tensors[i].defined(), "kernel ", name, ": argument ", i, " is undefined");
    check(tensors[i].device() == tensors[0].device(), "kernel ", name, ": argument ", i, " is on ",
          tensors[i].device(), ", argument 0 on ", tensors[0].device());
    check(!thread_state.grad_enabled || !tensors[i].requires_grad(), "kernel ", name, ": argument ",
          i, " requires grad, and a kernel has no gradient; use as_op, no_grad, or detach it");
  }
  for (const Tensor& tensor : tensors) {
    void* const data = tensor.data_ptr();
    views.push_back(tensor.impl().view);
    views.back().data = data;
  }
  return views;
}

}  // namespace

AnyKernel::AnyKernel(std::string name, Function body) : state_(std::make_shared<State>()) {
  state_->name = std::move(name);
  state_->body = std::move(body);
}

const std::string& AnyKernel::name() const { return state_->name; }

void AnyKernel::run(std::span<const Tensor> tensors, std::span<const Scalar> numbers) const {
  const std::vector<View> views = views_of(state_->name, tensors);
  for (int written : run_on(views, numbers))
    tensors[static_cast<size_t>(written)].impl().storage->bump_version();
}

BlockProgram AnyKernel::record(std::span<const Tensor> tensors,
                               std::span<const Scalar> numbers) const {
  const std::vector<View> views = views_of(state_->name, tensors);
  return state_->record(views, numbers, {});
}

std::string AnyKernel::describe(std::span<const Tensor> tensors,
                                std::span<const Scalar> numbers) const {
  return to_string(record(tensors, numbers));
}

std::vector<int> AnyKernel::run_on(std::span<const View> arrays,
                                   std::span<const Scalar> numbers) const {
  State& state = *state_;
  const Device device = arrays[0].device;
  const bool tunes = !is_deterministic();
  const bool known = tunes && state.is_tunable.load(std::memory_order_relaxed);
  std::string signature = known ? signature_of(arrays) : std::string();
  Tuner::Turn turn = known ? state.tuner.begin(signature) : Tuner::Turn{};
  std::vector<Tunable> tunables;
  BlockProgram program = state.record(arrays, numbers, turn.choice, &tunables);
  if (tunes && !turn.known && !tunables.empty()) {
    state.is_tunable.store(true, std::memory_order_relaxed);
    signature = signature_of(arrays);
    turn = state.tuner.learn(signature, tunables, to_string(program), device);
    program = state.record(arrays, numbers, turn.choice);
  }
  while (turn.candidate >= 0) {
    try {
      if (!device.is_cpu()) synchronize(device);
      const auto start = std::chrono::steady_clock::now();
      run_recorded(program, arrays, device);
      if (!device.is_cpu()) synchronize(device);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      state.tuner.end(signature, turn, time.count());
      return program.written;
    } catch (const KernelDoesNotFit&) {
      state.tuner.drop(signature, turn);
      turn = state.tuner.begin(signature);
      program = state.record(arrays, numbers, turn.choice);
    }
  }
  run_recorded(program, arrays, device);
  return program.written;
}

}  // namespace tensora::jit

#include "tensora/jit/fuse.h"

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>

#include "tensora/core/determinism.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/jit/compiled.h"

namespace tensora::jit {

struct Fused::State {
  struct Version {
    std::string signature;
    std::shared_ptr<const Compiled> code;
  };
  Function function;
  size_t limit = 0;
  std::mutex mutex;
  std::list<Version> versions;      // most recently used first
  bool depends_on_offsets = false;  // some version does
  CacheStatistics statistics;
};

namespace {

// Whatever the trace may have depended on, apart from the function itself.
std::string signature(std::span<const Tensor> inputs, bool with_offsets) {
  std::string text = concat(default_dtype(), is_deterministic());
  for (int type = 0; type < kDeviceTypeCount; ++type)
    if (is_autocast_enabled(static_cast<DeviceType>(type)))
      text += concat(" autocast ", type, autocast_dtype(static_cast<DeviceType>(type)));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    text += concat(";", input.dtype(), input.sizes(), input.strides(), input.device(),
                   input.impl().wrapped_number, input.is_inference());
    size_t first = 0;  // that lies in the same storage
    while (!inputs[first].shares_storage(input)) ++first;
    const bool shared = std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& other) {
      return &other != &input && other.shares_storage(input);
    });
    if (shared || with_offsets)
      text += concat("@", first, "+", input.storage_offset(), "/", input.impl().storage->bytes());
  }
  return text;
}

void check_inputs(std::span<const Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    check(inputs[i].defined(), "jit: input ", i, " of the fused function is undefined");
}

}  // namespace

Fused::Fused(Function function, size_t max_versions) : state_(std::make_shared<State>()) {
  check(function != nullptr, "jit: there is no function to fuse");
  check(max_versions > 0, "jit: a fused function keeps at least one version, got a limit of 0");
  state_->function = std::move(function);
  state_->limit = max_versions;
}

std::shared_ptr<const Compiled> Fused::compiled(std::span<const Tensor> inputs) const {
  check_inputs(inputs);
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  const std::string wanted = signature(inputs, state.depends_on_offsets);
  const auto found =
      std::find_if(state.versions.begin(), state.versions.end(),
                   [&](const State::Version& version) { return version.signature == wanted; });
  if (found != state.versions.end()) {
    ++state.statistics.hits;
    state.versions.splice(state.versions.begin(), state.versions, found);
    return found->code;
  }
  ++state.statistics.misses;
  auto code = std::make_shared<const Compiled>(trace(state.function, inputs));
  state.depends_on_offsets |= code->graph().depends_on_offsets;
  state.versions.push_front({signature(inputs, state.depends_on_offsets), code});
  if (state.versions.size() > state.limit) {
    state.versions.pop_back();
    ++state.statistics.evictions;
  }
  return code;
}

std::vector<Tensor> Fused::run(std::span<const Tensor> inputs) const {
  if (thread_state.interceptor) return state_->function(inputs);
  const std::shared_ptr<const Compiled> code = compiled(inputs);
  if (thread_state.grad_enabled) {
    for (size_t i = 0; i < inputs.size(); ++i)
      check(!inputs[i].requires_grad(), "jit: input ", i,
            " requires grad, and gradients through a fused function are not supported; use no_grad "
            "or detach it");
    for (const Value& value : code->graph().values)
      check(!value.constant.defined() || !value.constant.requires_grad(),
            "jit: the function captured a tensor of shape ", value.sizes,
            " that requires grad, and gradients through a fused function are not supported; use "
            "no_grad or detach it");
  }
  return code->run(inputs);
}

std::string Fused::describe(std::span<const Tensor> inputs) const {
  return compiled(inputs)->describe();
}

int Fused::kernel_count(std::span<const Tensor> inputs) const {
  return compiled(inputs)->kernel_count();
}

CacheStatistics Fused::statistics() const {
  const std::lock_guard lock(state_->mutex);
  CacheStatistics result = state_->statistics;
  result.versions = state_->versions.size();
  result.limit = state_->limit;
  return result;
}

Fused fuse(std::function<Tensor(std::span<const Tensor>)> function,
           std::span<const Tensor> example_inputs) {
  check(function != nullptr, "jit: there is no function to fuse");
  Fused fused([function = std::move(function)](std::span<const Tensor> inputs) {
    return std::vector<Tensor>{function(inputs)};
  });
  fused.kernel_count(example_inputs);
  return fused;
}

}  // namespace tensora::jit

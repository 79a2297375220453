// Hooks around calls of a module.
#include <atomic>
#include <memory>

#include "tensora/autograd/function.h"
#include "tensora/nn/module_state.h"

namespace tensora::nn {

namespace {

std::atomic<uint64_t> last_hook_id{0};

template <class Hook>
std::function<void()> add_hook(const std::shared_ptr<ModuleState>& state,
                               std::vector<ModuleState::Registered<Hook>> ModuleState::Hooks::*list,
                               Hook hook) {
  const uint64_t id = ++last_hook_id;
  (state->hooks.*list).push_back({id, std::move(hook)});
  state->hooked = true;
  return [weak = std::weak_ptr(state), list, id] {
    const auto alive = weak.lock();
    if (!alive) return;
    std::erase_if(alive->hooks.*list, [id](const auto& entry) { return entry.id == id; });
    alive->hooked = !alive->hooks.empty();
  };
}

}  // namespace

std::function<void()> Module::register_forward_pre_hook(ForwardPreHook hook) {
  return add_hook(state_, &ModuleState::Hooks::before, std::move(hook));
}
std::function<void()> Module::register_forward_hook(ForwardHook hook) {
  return add_hook(state_, &ModuleState::Hooks::after, std::move(hook));
}
std::function<void()> Module::register_full_backward_hook(BackwardHook hook) {
  return add_hook(state_, &ModuleState::Hooks::backward, std::move(hook));
}

bool Module::has_hooks() const { return state_->hooked; }

namespace {

void check_count(const Module& module, size_t before, size_t after) {
  check(before == after, module.name(), ": a hook may replace tensors, not add or remove any; of ",
        before, " it left ", after);
}

}  // namespace

// The lists are copied: a hook may remove itself.
void Module::run_forward_pre_hooks(TensorList& inputs) {
  const auto hooks = state_->hooks.before;
  const size_t count = inputs.size();
  for (const auto& hook : hooks) hook.call(*this, inputs);
  check_count(*this, count, inputs.size());
}

void Module::run_forward_hooks(const TensorList& inputs, TensorList& outputs) {
  const auto hooks = state_->hooks.after;
  const size_t count = outputs.size();
  for (const auto& hook : hooks) hook.call(*this, inputs, outputs);
  check_count(*this, count, outputs.size());
}

// Note [Backward hooks of a module]
// The tensors that enter a call, and those that leave it, pass through one identity each. Backward
// reaches the outputs' identity with all gradients of the outputs at once, and remembers them; when
// it reaches the inputs' identity, the hooks can be shown both. Where no input wants a gradient,
// they are shown the outputs' alone.
class Module::BackwardHooks {
 public:
  explicit BackwardHooks(ModulePtr module) : module_(std::move(module)) {}

  /// Passes those of `tensors` that want gradients through an identity of type `Watch`.
  template <class Watch>
  static std::vector<size_t> watch(const std::shared_ptr<BackwardHooks>& hooks,
                                   TensorList& tensors) {
    std::vector<size_t> positions;
    TensorList watched;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].defined() || !tensors[i].requires_grad()) continue;
      positions.push_back(i);
      watched.push_back(tensors[i]);
    }
    if (watched.empty()) return positions;
    watched = Watch::apply(watched, hooks);
    for (size_t i = 0; i < positions.size(); ++i) tensors[positions[i]] = watched[i];
    return positions;
  }

  struct WatchInputs;
  struct WatchOutputs;

  TensorList spread(const TensorList& grads, const std::vector<size_t>& positions,
                    size_t count) const {
    TensorList all(count);
    for (size_t i = 0; i < positions.size(); ++i) all[positions[i]] = grads[i];
    return all;
  }
  TensorList run(TensorList grad_inputs) {
    const auto hooks = module_->state_->hooks.backward;
    for (const auto& hook : hooks) {
      TensorList replaced = hook.call(*module_, grad_inputs, grad_outputs);
      if (replaced.empty()) continue;
      check(replaced.size() == grad_inputs.size(), module_->name(), ": a backward hook returned ",
            replaced.size(), " gradients for ", grad_inputs.size(), " inputs");
      grad_inputs = std::move(replaced);
    }
    return grad_inputs;
  }

  std::vector<size_t> input_positions, output_positions;
  size_t input_count = 0, output_count = 0;
  TensorList grad_outputs;

 private:
  ModulePtr module_;
};

struct Module::BackwardHooks::WatchInputs : Function<WatchInputs> {
  static TensorList forward(Context& context, const TensorList& tensors,
                            const std::shared_ptr<BackwardHooks>& hooks) {
    context.data["hooks"] = hooks;
    context.set_materialize_grads(false);
    return tensors;
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    const auto hooks = std::any_cast<std::shared_ptr<BackwardHooks>>(context.data["hooks"]);
    const TensorList all =
        hooks->run(hooks->spread(grads, hooks->input_positions, hooks->input_count));
    TensorList result;
    for (const size_t position : hooks->input_positions) result.push_back(all[position]);
    result.emplace_back();
    return result;
  }
};

struct Module::BackwardHooks::WatchOutputs : Function<WatchOutputs> {
  static TensorList forward(Context& context, const TensorList& tensors,
                            const std::shared_ptr<BackwardHooks>& hooks) {
    context.data["hooks"] = hooks;
    context.set_materialize_grads(false);
    return tensors;
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    const auto hooks = std::any_cast<std::shared_ptr<BackwardHooks>>(context.data["hooks"]);
    hooks->grad_outputs = hooks->spread(grads, hooks->output_positions, hooks->output_count);
    if (hooks->input_positions.empty()) hooks->run(TensorList(hooks->input_count));
    TensorList result = grads;
    result.emplace_back();
    return result;
  }
};

std::shared_ptr<Module::BackwardHooks> Module::watch_inputs(TensorList& inputs) {
  if (state_->hooks.backward.empty()) return nullptr;
  const auto hooks = std::make_shared<BackwardHooks>(copy());
  hooks->input_count = inputs.size();
  hooks->input_positions = BackwardHooks::watch<BackwardHooks::WatchInputs>(hooks, inputs);
  return hooks;
}

void Module::watch_outputs(const std::shared_ptr<BackwardHooks>& hooks, TensorList& outputs) {
  if (!hooks) return;
  hooks->output_count = outputs.size();
  hooks->output_positions = BackwardHooks::watch<BackwardHooks::WatchOutputs>(hooks, outputs);
}

}  // namespace tensora::nn

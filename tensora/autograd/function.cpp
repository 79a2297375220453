#include "tensora/autograd/function.h"

#include "tensora/autograd/engine.h"
#include "tensora/autograd/history.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <utility>

namespace tensora {
namespace {

std::string readable_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  const std::string full = status == 0 ? text.get() : type.name();
  const size_t colon = full.rfind("::");
  return colon == std::string::npos ? full : full.substr(colon + 2);
}

bool holds(const TensorList& list, const Tensor& tensor) {
  for (const Tensor& candidate : list)
    if (candidate.is_same(tensor)) return true;
  return false;
}

// The node that a tensor has as its history wrote it as output number `index`.
void point_history_to(const Tensor& tensor, uint32_t index) {
  AutogradMeta& meta = autograd_meta(tensor);
  if (meta.retains_grad) meta.grad_fn->remove_hook(meta.retain_hook);
  meta.output = index;
  if (meta.retains_grad) keep_gradient(meta);
}

// The function whose backward this thread runs: the plan of the run says which gradients are of
// use. It knows nothing of functions whose forward runs meanwhile.
thread_local const FunctionNode* running = nullptr;
struct RunningScope {
  explicit RunningScope(const FunctionNode* node) : outer(std::exchange(running, node)) {}
  ~RunningScope() { running = outer; }
  const FunctionNode* outer;
};

}  // namespace

Context::~Context() = default;
FunctionNode::~FunctionNode() = default;

void Context::save_for_backward(TensorList tensors) {
  saved_.clear();
  for (Tensor& tensor : tensors) {
    const uint32_t version = tensor.defined() ? tensor.version() : 0;
    saved_.push_back({std::move(tensor), version, -1});
  }
}

TensorList Context::saved_tensors() const {
  TensorList result;
  for (const Saved& saved : saved_) {
    if (!saved.tensor.defined()) {
      result.emplace_back();
      continue;
    }
    check(saved.tensor.version() == saved.version, "backward: a tensor of shape ",
          saved.tensor.sizes(), " that '", node_.name(),
          "' needs for its gradient was changed in place since (version ", saved.tensor.version(),
          ", expected ", saved.version, "); clone it before");
    result.push_back(saved.tensor);
    if (saved.output < 0 || !is_grad_enabled() || !is_differentiable(saved.tensor.dtype()))
      continue;
    result.back() = shallow_detach(saved.tensor);
    set_history(result.back(), NodePtr::share(&node_), static_cast<uint32_t>(saved.output));
  }
  return result;
}

void Context::mark_non_differentiable(const TensorList& outputs) { non_differentiable_ = outputs; }

void Context::mark_dirty(const TensorList& inputs) { dirty_ = inputs; }

bool Context::needs_input_grad(size_t i) const {
  if (i >= node_.edges().size() || !node_.edges()[i].node) return false;
  return running != &node_ || is_gradient_wanted(*node_.edges()[i].node);
}

FunctionNode::FunctionNode(const std::type_info& type, Backward backward)
    : name_(readable_name(type)), backward_(backward), context_(*this) {
  note_caller();
}

void FunctionNode::add_argument(const Tensor& argument) {
  const bool recording = argument.defined() && is_grad_enabled();
  add_edge(recording ? gradient_edge(argument) : Edge());
  arguments_.push_back(argument.defined() ? InputInfo::of(argument) : InputInfo());
  argument_tensors_.push_back(argument);
  if (argument.defined()) take_queue(argument.device());
}

bool FunctionNode::records() const {
  for (const Edge& edge : edges())
    if (edge.node) return true;
  return false;
}

// An input that is returned unchanged would have two histories: the output becomes an alias.
Tensor FunctionNode::as_argument_alias(const Tensor& output) const {
  const bool untracked = !output.is_view() && !holds(argument_tensors_, output);
  return untracked ? output : shallow_detach(output);
}

void FunctionNode::take_output(Tensor& output, uint32_t index) {
  const Tensor original = output;
  if (holds(context_.dirty_, output)) {
    rebase_history(output, NodePtr::share(this));
    if (index != 0) point_history_to(output, index);
  } else {
    output = as_argument_alias(output);
    if (is_differentiable(output.dtype()) && !holds(context_.non_differentiable_, original))
      set_history(output, NodePtr::share(this), index);
  }
  for (Context::Saved& saved : context_.saved_) {
    if (!saved.tensor.defined() || !saved.tensor.is_same(original)) continue;
    if (holds(argument_tensors_, original) && !holds(context_.dirty_, original)) continue;
    // An output whose history is this node would create a reference cycle: save it without history.
    saved.tensor = shallow_detach(original);
    saved.output = static_cast<int>(index);
  }
}

void FunctionNode::finish(TensorList& outputs) {
  for (const Tensor& dirty : context_.dirty_) {
    check(holds(argument_tensors_, dirty) && holds(outputs, dirty), name_,
          ": a tensor marked as dirty must be an input, and be returned");
    check_inplace(dirty, name_, records());
    check(!dirty.is_view() || (outputs.size() == 1 && argument_tensors_[0].is_same(dirty)), name_,
          ": a view that is marked as dirty must be the first argument and the only output");
    // Counted once more than the ops of forward did, which may have written by pointer.
    const uint32_t before = dirty.version();
    dirty.impl().storage->bump_version();
    for (Context::Saved& saved : context_.saved_)
      if (saved.tensor.defined() && saved.tensor.shares_storage(dirty) && saved.version == before)
        saved.version = dirty.version();
  }
  for (const Tensor& output : outputs) {
    check(output.defined(), name_, ": forward returned an undefined tensor");
    outputs_.push_back(InputInfo::of(output));
  }
  set_output_count(static_cast<uint32_t>(outputs.size()));
  if (records())
    for (size_t i = 0; i < outputs.size(); ++i) take_output(outputs[i], static_cast<uint32_t>(i));
  argument_tensors_.clear();
  context_.dirty_.clear();
  context_.non_differentiable_.clear();
}

Tensors FunctionNode::backward(Tensors grads) {
  check(!released_, "backward: the graph of '", name_,
        "' was already used and its saved tensors were freed; pass retain_graph to the first "
        "backward if you need a second one");
  TensorList given;
  for (size_t i = 0; i < grads.size(); ++i) {
    const InputInfo& output = outputs_[i];
    const bool fill = !grads[i].defined() && context_.materialize_grads_;
    given.push_back(fill ? engine_ops().zeros(output.sizes, output.dtype, output.device)
                         : std::move(grads[i]));
  }
  const RunningScope scope(this);
  TensorList results = backward_(context_, given);
  check(results.size() == edges().size(), name_,
        ": backward must return one gradient per argument "
        "of forward (",
        edges().size(), "), got ", results.size());
  Tensors fitted(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined() || !edges()[i].node) continue;
    fitted[i] = std::move(results[i]);
    arguments_[i].fit(fitted[i], name_);
  }
  return fitted;
}

void FunctionNode::release() {
  released_ |= !context_.saved_.empty();
  context_.saved_.clear();
}

}  // namespace tensora

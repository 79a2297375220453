#include "tensora/autograd/node.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "tensora/autograd/call_stack.h"
#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/core/deferred.h"

namespace tensora {
namespace {

EngineOps engine_ops_table;

// Note [Freeing long graphs]
// A node owns its edges, so the last reference to the end of a 100,000-op chain would free the
// chain by 100,000 nested destructors. Instead the outermost destroy() of a thread runs a loop, and
// nested calls only queue their node.
thread_local constinit std::vector<Node*>* doomed = nullptr;

uint64_t next_hook_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

bool is_view(const Tensor& tensor) {
  const AutogradMeta* const meta = autograd_meta_or_null(tensor);
  return meta && meta->view;
}

// Or a view of all of a tensor that nobody else has: a turned product, as of a linear layer.
bool is_sole_owner(const Tensor& tensor) {
  if (tensor.impl().use_count() != 1) return false;
  const auto owners = owner_count(*tensor.impl().storage);
  if (owners == 1 || !is_view(tensor)) return owners == 1;
  const Tensor& base = autograd_meta_or_null(tensor)->view.base;
  return owners == 2 && base.impl().use_count() == 1 && base.numel() == tensor.numel();
}

}  // namespace

const EngineOps& engine_ops() { return engine_ops_table; }
void set_engine_ops(const EngineOps& ops) { engine_ops_table = ops; }

void Node::free_extras() {
  delete hooks_;
  delete created_at_;
}

void Node::destroy(Node* node) {
  if (doomed) {
    doomed->push_back(node);
    return;
  }
  std::vector<Node*> queue;
  doomed = &queue;
  delete node;
  while (!queue.empty()) {
    Node* next = queue.back();
    queue.pop_back();
    delete next;
  }
  doomed = nullptr;
}

void Node::note_caller() {
  if (is_anomaly_enabled() && !created_at_) created_at_ = new CallStack(CallStack::here());
}

void InputInfo::fit(Tensor& grad, std::string_view op) const {
  if (grad.sizes() != sizes) {
    check(can_broadcast_to(sizes, grad.sizes()), "backward of '", op, "' gave a gradient of shape ",
          grad.sizes(), " for an input of shape ", sizes);
    grad = engine_ops().sum_to(grad, sizes);
  }
  if (grad.dtype() != dtype || grad.device() != device)
    grad = engine_ops().cast(grad, dtype, device);
}

uint64_t Node::insert_hook(GradHook hook) {
  if (!hooks_) hooks_ = new std::vector<GradHook>();
  const auto end = std::find_if(hooks_->begin(), hooks_->end(),
                                [&](const GradHook& other) { return other.last > hook.last; });
  hook.id = next_hook_id();
  if (is_leaf()) ++AccumulateGrad::hook_count();
  return hooks_->insert(end, std::move(hook))->id;
}

uint64_t Node::add_hook(uint32_t output, std::function<Tensor(const Tensor&)> call) {
  return insert_hook({.output = output, .id = 0, .call = std::move(call)});
}

uint64_t Node::add_last_hook(uint32_t output, std::function<Tensor(const Tensor&)> call) {
  return insert_hook({.output = output, .id = 0, .call = std::move(call), .last = true});
}

void Node::remove_hook(uint64_t id) {
  if (!hooks_) return;
  const size_t removed =
      std::erase_if(*hooks_, [id](const GradHook& hook) { return hook.id == id; });
  if (is_leaf()) AccumulateGrad::hook_count() -= static_cast<int64_t>(removed);
}

void Node::run_hooks(Tensors& grads) const {
  if (!has_hooks()) return;
  // A copy: a hook may remove itself, or add others.
  for (const GradHook& hook : std::vector<GradHook>(*hooks_)) {
    Tensor& grad = grads[hook.output];
    if (!grad.defined()) continue;
    Tensor replaced = hook.call(grad);
    if (!replaced.defined()) continue;
    check(replaced.sizes() == grad.sizes() && replaced.dtype() == grad.dtype() &&
              replaced.device() == grad.device(),
          "backward: a hook on output ", hook.output, " of '", name(), "' was given a gradient of ",
          grad.dtype(), " of shape ", grad.sizes(), " on ", grad.device(), " and returned ",
          replaced.dtype(), " of shape ", replaced.sizes(), " on ", replaced.device(),
          "; a replacement must have the same dtype, shape and device");
    grad = std::move(replaced);
  }
}

// ---- AccumulateGrad --------------------------------------------------------------------------

std::atomic<int64_t>& AccumulateGrad::hook_count() {
  static constinit std::atomic<int64_t> count{0};
  return count;
}

namespace {

// The strides that the gradient of a leaf takes over; null: row-major.
std::unique_ptr<const Strides> layout_of_gradient(const Tensor& leaf) {
  if (leaf.is_contiguous() || !is_dense(leaf.sizes(), leaf.strides())) return nullptr;
  return std::make_unique<Strides>(leaf.strides());
}

}  // namespace

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : layout_(layout_of_gradient(leaf)) {}

AccumulateGrad::~AccumulateGrad() {
  const size_t hooks = after_hooks_.size() + (has_hooks() ? this->hooks().size() : 0);
  if (hooks > 0) hook_count() -= static_cast<int64_t>(hooks);
}

Tensor AccumulateGrad::grad() const {
  std::lock_guard lock(mutex_);
  return grad_;
}

void AccumulateGrad::set_grad(Tensor grad) {
  std::lock_guard lock(mutex_);
  std::swap(grad_, grad);  // the old one is freed after the lock
}

void AccumulateGrad::follow(const Tensor& leaf) {
  Tensor dropped;  // freed after the lock
  std::lock_guard lock(mutex_);
  layout_ = layout_of_gradient(leaf);
  if (leaf_.defined()) leaf_ = shallow_detach(leaf);
  if (grad_.defined() && (grad_.sizes() != leaf.sizes() || grad_.dtype() != leaf.dtype() ||
                          grad_.device() != leaf.device()))
    std::swap(grad_, dropped);
}

uint64_t AccumulateGrad::add_after_hook(const Tensor& leaf, AfterHook hook) {
  std::lock_guard lock(mutex_);
  if (!leaf_.defined()) leaf_ = shallow_detach(leaf);
  after_hooks_.push_back({next_hook_id(), std::move(hook)});
  ++after_hook_count_;
  ++hook_count();
  return after_hooks_.back().id;
}

void AccumulateGrad::remove_after_hook(uint64_t id) {
  std::lock_guard lock(mutex_);
  const size_t removed =
      std::erase_if(after_hooks_, [id](const Registered& hook) { return hook.id == id; });
  after_hook_count_ -= static_cast<uint32_t>(removed);
  hook_count() -= static_cast<int64_t>(removed);
}

// The strides of dims of one element have no meaning.
bool AccumulateGrad::has_layout(const Tensor& grad) const {
  if (!layout_) return grad.is_contiguous();
  for (int i = 0; i < grad.dim(); ++i)
    if (grad.sizes()[i] > 1 && grad.strides()[i] != (*layout_)[i]) return false;
  return true;
}

void AccumulateGrad::take_in(Tensor& incoming) {
  const EngineOps& ops = engine_ops();
  if (grad_.defined()) {
    if (is_grad_enabled())
      grad_ = ops.add(grad_, incoming);
    else
      ops.add_(grad_, incoming);
    return;
  }
  // A gradient with no other owner is taken over without a copy.
  const bool sole_owner = has_layout(incoming) && is_sole_owner(incoming);
  if (is_grad_enabled() && has_layout(incoming)) {
    grad_ = std::move(incoming);
  } else if (sole_owner) {
    grad_ = is_view(incoming) ? shallow_detach(incoming) : std::move(incoming);
  } else if (layout_) {
    grad_ = make_tensor(incoming.sizes(), *layout_, incoming.dtype(), incoming.device());
    ops.copy_(grad_, incoming);
  } else {
    grad_ = ops.clone(incoming);
  }
}

Tensors AccumulateGrad::backward(Tensors grads) {
  if (!grads[0].defined()) return {};
  std::vector<Registered> hooks;
  Tensor leaf;
  {
    std::lock_guard lock(mutex_);
    take_in(grads[0]);
    if (after_hooks_.empty()) return {};
    hooks = after_hooks_;
    leaf = shallow_detach(leaf_);
  }
  // Outside the lock: hooks read and set the gradient. The leaf itself may be gone while its graph
  // lives, and must not be owned from here; another handle to its data and gradient serves as well.
  leaf.impl().requires_grad = true;
  autograd_meta(leaf).accumulator = IntrusivePtr<AccumulateGrad>::share(this);
  for (const Registered& hook : hooks) hook.call(leaf);
  return {};
}

}  // namespace tensora

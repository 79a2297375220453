#include "tensora/autograd/node.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "tensora/autograd/call_stack.h"
#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/autograd/node_hooks.h"
#include "tensora/autograd/sparse_gradient.h"
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
  if (has_node_hooks(*this)) forget_node_hooks(*this);
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
  note_host_work("a hook runs in backward");
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

// ---- hooks on nodes themselves ----------------------------------------------------------------
// Few programs have any, so they are kept beside the nodes.

namespace {

// By pointer: a hook may hold an object of Python, and copying or freeing that takes Python's lock,
// for which nobody may wait who has the lock of the table.
template <class Hook>
using Registrations = std::vector<std::pair<uint64_t, std::shared_ptr<const Hook>>>;
struct NodeHooks {
  Registrations<HookBeforeNode> before;
  Registrations<HookAfterNode> after;
};
using NodeHooksPtr = std::shared_ptr<const NodeHooks>;  // replaced as a whole

struct NodeHookTable {
  Mutex mutex;
  std::unordered_map<const Node*, NodeHooksPtr> of;
};
NodeHookTable& node_hook_table() {
  static auto* const table = new NodeHookTable;  // nodes may outlive static objects
  return *table;
}

NodeHooksPtr hooks_of(const Node& node) {
  NodeHookTable& table = node_hook_table();
  std::lock_guard lock(table.mutex);
  const auto found = table.of.find(&node);
  return found == table.of.end() ? nullptr : found->second;
}

// Gives the node what `change` makes of its hooks.
template <class Change>
void change_hooks(const Node& node, Change change) {
  NodeHookTable& table = node_hook_table();
  NodeHooksPtr former;  // freed after the lock
  std::lock_guard lock(table.mutex);
  const auto found = table.of.find(&node);
  if (found != table.of.end()) former = found->second;
  auto changed = std::make_shared<NodeHooks>(former ? *former : NodeHooks());
  change(*changed);
  if (!former) ++detail::hooked_nodes;
  table.of[&node] = std::move(changed);
}

// A hook that runs may remove others.
bool is_still_there(const Node& node, uint64_t id) {
  const NodeHooksPtr hooks = hooks_of(node);
  const auto has = [id](const auto& list) {
    return std::ranges::any_of(list, [id](const auto& hook) { return hook.first == id; });
  };
  return hooks && (has(hooks->before) || has(hooks->after));
}

}  // namespace

bool detail::is_hooked(const Node& node) { return hooks_of(node) != nullptr; }

std::atomic<int64_t> detail::hooked_nodes{0};

namespace {

template <class Hook>
uint64_t add_node_hook(Node& node, Registrations<Hook> NodeHooks::*list, Hook hook) {
  check(!node.is_leaf(), "a leaf has hooks on its gradient, not on its node");
  // A hook on a gradient comes and goes: free_extras() is called for nodes that ever had one.
  const uint64_t id = node.add_hook(0, nullptr);
  node.remove_hook(id);
  const auto kept = std::make_shared<const Hook>(std::move(hook));
  change_hooks(node, [&](NodeHooks& hooks) { (hooks.*list).emplace_back(id, kept); });
  return id;
}

}  // namespace

uint64_t add_hook_before(Node& node, HookBeforeNode hook) {
  return add_node_hook(node, &NodeHooks::before, std::move(hook));
}

uint64_t add_hook_after(Node& node, HookAfterNode hook) {
  return add_node_hook(node, &NodeHooks::after, std::move(hook));
}

void remove_node_hook(const Node& node, uint64_t id) {
  if (!has_node_hooks(node)) return;
  const auto is_it = [id](const auto& hook) { return hook.first == id; };
  change_hooks(node, [&](NodeHooks& hooks) {
    std::erase_if(hooks.before, is_it);
    std::erase_if(hooks.after, is_it);
  });
}

void forget_node_hooks(const Node& node) {
  NodeHookTable& table = node_hook_table();
  NodeHooksPtr former;  // freed after the lock
  std::lock_guard lock(table.mutex);
  const auto found = table.of.find(&node);
  if (found == table.of.end()) return;
  former = std::move(found->second);
  table.of.erase(found);
  --detail::hooked_nodes;
}

void run_hooks_before(const Node& node, Tensors& output_grads) {
  const NodeHooksPtr hooks = hooks_of(node);
  for (const auto& [id, call] : hooks->before) {
    if (!is_still_there(node, id)) continue;
    Tensors changed = (*call)(output_grads);
    if (!changed.empty()) output_grads = std::move(changed);
  }
}

void run_hooks_after(const Node& node, Tensors& input_grads, const Tensors& output_grads) {
  const NodeHooksPtr hooks = hooks_of(node);
  for (const auto& [id, call] : hooks->after) {
    if (!is_still_there(node, id)) continue;
    Tensors changed = (*call)(input_grads, output_grads);
    if (!changed.empty()) input_grads = std::move(changed);
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
  note_leaf(const_cast<AccumulateGrad&>(*this), true);
  std::lock_guard lock(mutex_);
  return grad_;
}

void AccumulateGrad::set_grad(Tensor grad) {
  note_leaf(*this, false);
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
  if (!leaf_.defined() && leaf.defined()) leaf_ = shallow_detach(leaf);
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

// The entries are shared with nobody, so that they may be scaled in place.
void AccumulateGrad::take_in_sparse(Tensor& incoming) {
  const EngineOps& ops = engine_ops();
  if (grad_.defined()) {
    if (is_sparse(grad_) || is_grad_enabled())
      grad_ = sum_of_sparse(grad_, incoming);
    else
      ops.add_(grad_, dense_of(incoming));
    return;
  }
  const SparseParts& parts = *sparse_parts(incoming);
  if (is_grad_enabled() ||
      (incoming.impl().use_count() == 1 && !is_view(parts.values) && is_sole_owner(parts.values)))
    grad_ = std::move(incoming);
  else
    grad_ =
        make_sparse({parts.indices, ops.clone(parts.values), parts.coalesced}, incoming.sizes());
}

void AccumulateGrad::take_in(Tensor& incoming) {
  if (is_sparse(incoming) || is_sparse(grad_)) [[unlikely]]
    return take_in_sparse(incoming);
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
  note_leaf(*this, true);
  if (waits_for_all()) note_host_work("a hook runs in backward");
  std::vector<Registered> hooks;
  Tensor leaf;
  {
    std::lock_guard lock(mutex_);
    take_in(grads[0]);
    if (after_hooks_.empty()) return {};
    hooks = after_hooks_;
    if (leaf_.defined()) leaf = shallow_detach(leaf_);
  }
  // Outside the lock: hooks read and set the gradient. The leaf itself may be gone while its graph
  // lives, and must not be owned from here; another handle to its data and gradient serves as well.
  if (leaf.defined()) {
    leaf.impl().requires_grad = true;
    autograd_meta(leaf).accumulator = IntrusivePtr<AccumulateGrad>::share(this);
  }
  for (const Registered& hook : hooks) hook.call(leaf);
  return {};
}

}  // namespace tensora

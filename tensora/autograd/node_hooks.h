#pragma once

#include <atomic>
#include <functional>

#include "tensora/autograd/node.h"

namespace tensora {

// Hooks on a node itself, which see all of its gradients at once. Leaves have hooks of their own
// (AccumulateGrad).

/// Gets the gradients of an op's outputs; what it returns, unless that is empty, replaces them.
using HookBeforeNode = std::function<Tensors(const Tensors& output_grads)>;
/// Gets the gradients of an op's inputs, and those of its outputs; what it returns, unless that is
/// empty, replaces the former.
using HookAfterNode =
    std::function<Tensors(const Tensors& input_grads, const Tensors& output_grads)>;

/// Calls `hook` in each backward before the node runs; returns the hook's id.
uint64_t add_hook_before(Node& node, HookBeforeNode hook);
/// Calls `hook` in each backward after the node ran; returns the hook's id.
uint64_t add_hook_after(Node& node, HookAfterNode hook);
void remove_node_hook(const Node& node, uint64_t id);

namespace detail {
extern std::atomic<int64_t> hooked_nodes;
bool is_hooked(const Node& node);
}  // namespace detail

/// Whether there is a hook on the node.
inline bool has_node_hooks(const Node& node) {
  return detail::hooked_nodes.load(std::memory_order_relaxed) > 0 && detail::is_hooked(node);
}
void run_hooks_before(const Node& node, Tensors& output_grads);
void run_hooks_after(const Node& node, Tensors& input_grads, const Tensors& output_grads);
/// For a node that is being destroyed.
void forget_node_hooks(const Node& node);

}  // namespace tensora

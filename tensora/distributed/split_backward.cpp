#include "tensora/distributed/split_backward.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

/// The nodes below an output, those with the highest rank first.
std::vector<NodePtr> nodes_below(const NodePtr& root) {
  std::vector<NodePtr> found{root};
  std::unordered_set<const Node*> seen{root.get()};
  for (size_t i = 0; i < found.size(); ++i) {
    const NodePtr node = found[i];
    for (const Edge& edge : node->edges())
      if (edge.node && seen.insert(edge.node.get()).second) found.push_back(edge.node);
  }
  std::ranges::sort(found,
                    [](const NodePtr& a, const NodePtr& b) { return a->rank() > b->rank(); });
  return found;
}

void add_leaves(const Edge& from, std::vector<Edge>& leaves) {
  for (const NodePtr& node : nodes_below(from.node))
    if (node->is_leaf() &&
        std::ranges::none_of(leaves, [&](const Edge& known) { return known.node == node; }))
      leaves.push_back({node, 0});
}

}  // namespace

Tensor SplitBackward::input_gradient(const Tensor& output, const Tensor& input,
                                     const Tensor& gradient) {
  steps_.clear();
  const Edge root = gradient_edge(output);
  const NodePtr leaf = gradient_edge(input).node;
  const std::vector<NodePtr> nodes = nodes_below(root.node);
  std::unordered_set<const Node*> reaches{leaf.get()};
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (std::ranges::any_of((*node)->edges(), [&](const Edge& edge) {
          return edge.node && reaches.contains(edge.node.get());
        }))
      reaches.insert(node->get());
  check(reaches.contains(root.node.get()),
        "pipeline: the output of a stage does not depend on its input");
  std::unordered_map<const Node*, int> users;
  for (const NodePtr& node : nodes) {
    if (!reaches.contains(node.get()) || node == leaf) continue;
    Step step{node, {}, {}, Tensors(node->output_count())};
    for (const Edge& edge : node->edges()) {
      if (!edge.node) continue;
      if (reaches.contains(edge.node.get()))
        step.stops.push_back(edge);
      else
        add_leaves(edge, step.leaves);
    }
    if (step.leaves.empty()) continue;
    for (const Edge& used : step.leaves) ++users[used.node.get()];
    steps_.push_back(std::move(step));
  }
  std::vector<std::pair<NodePtr, uint64_t>> hooks;
  for (Step& step : steps_) {
    // Nothing leads from the node to its leaves on another way: no stop is needed.
    if (std::ranges::all_of(step.leaves,
                            [&](const Edge& used) { return users[used.node.get()] == 1; }))
      step.stops.clear();
    for (uint32_t i = 0; i < step.node->output_count(); ++i)
      hooks.emplace_back(step.node, step.node->add_last_hook(i, [&step, i](const Tensor& grad) {
        step.gradients[i] = grad;
        return Tensor();
      }));
  }
  const std::vector<Tensor> found =
      grad(std::vector<Tensor>{output}, {input},
           gradient.defined() ? std::vector<Tensor>{gradient} : std::vector<Tensor>{},
           {.retain_graph = true});
  for (const auto& [node, id] : hooks) node->remove_hook(id);
  return found[0];
}

void SplitBackward::accumulate_weights() {
  const no_grad silent;
  std::vector<Edge> order;  // of the leaves, as their gradients become complete
  std::unordered_map<const Node*, Tensor> sums;
  for (Step& step : steps_) {
    std::vector<Edge> roots, targets = step.leaves;
    std::vector<Tensor> gradients;
    for (uint32_t i = 0; i < step.gradients.size(); ++i)
      if (step.gradients[i].defined()) {
        roots.push_back({step.node, i});
        gradients.push_back(step.gradients[i]);
      }
    if (roots.empty()) continue;
    targets.insert(targets.end(), step.stops.begin(), step.stops.end());
    const std::vector<Tensor> found =
        gradients_at(targets, roots, std::move(gradients), {.retain_graph = true});
    for (size_t i = 0; i < step.leaves.size(); ++i) {
      if (!found[i].defined()) continue;
      Tensor& sum = sums[step.leaves[i].node.get()];
      if (!sum.defined()) order.push_back(step.leaves[i]);
      sum = sum.defined() ? sum + found[i] : found[i];
    }
  }
  steps_.clear();
  if (order.empty()) return;
  // A backward that starts at the leaves: it accumulates, and calls their hooks.
  std::vector<Tensor> outputs, gradients;
  for (const Edge& leaf : order) {
    gradients.push_back(sums[leaf.node.get()]);
    outputs.push_back(shallow_detach(gradients.back()));
    set_history(outputs.back(), leaf.node, 0);
  }
  backward(outputs, gradients);
}

}  // namespace tensora::distributed

#include "tensora/autograd/engine.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "tensora/autograd/grad_mode.h"

namespace tensora {
namespace {

// A node that some gradient has reached, and what arrived so far.
struct Pending {
  NodePtr node;
  Tensors grads;
};

// Note [Order of backward]
// Every node is deeper than all nodes it leads to, so taking the deepest pending node first
// guarantees that nothing more can arrive at it: no counting pass over the graph is needed, and
// the set of pending nodes stays as narrow as the network.
class PendingSet {
 public:
  bool empty() const { return heap_.empty(); }

  Pending& at(const NodePtr& node) {
    if (2 * (heap_.size() + 1) > table_.size()) enlarge();
    Pending*& slot = table_[slot_of(node.get())];
    if (slot) return *slot;
    Pending* fresh = take_spare();
    fresh->node = node;
    fresh->grads.resize(node->output_count());
    slot = fresh;
    heap_.push_back(fresh);
    std::push_heap(heap_.begin(), heap_.end(), shallower);
    return *fresh;
  }

  Pending pop() {
    std::pop_heap(heap_.begin(), heap_.end(), shallower);
    Pending* deepest = heap_.back();
    heap_.pop_back();
    erase(slot_of(deepest->node.get()));
    Pending result = std::move(*deepest);
    spare_.push_back(deepest);
    return result;
  }

 private:
  static bool shallower(const Pending* a, const Pending* b) {
    return a->node->depth() < b->node->depth();
  }

  // The table is open-addressed with linear probing; at most half of it is full.
  size_t home_of(const Node* node) const {
    const auto bits = reinterpret_cast<uintptr_t>(node);
    return (bits >> 6) * 0x9e3779b97f4a7c15u >> shift_;
  }
  size_t slot_of(const Node* node) const {
    size_t i = home_of(node);
    while (table_[i] && table_[i]->node.get() != node) i = (i + 1) & (table_.size() - 1);
    return i;
  }
  void erase(size_t hole) {
    const size_t mask = table_.size() - 1;
    table_[hole] = nullptr;
    // Entries behind the hole move up unless that would put them before their home.
    for (size_t i = (hole + 1) & mask; table_[i]; i = (i + 1) & mask) {
      const size_t home = home_of(table_[i]->node.get());
      if (((i - home) & mask) < ((i - hole) & mask)) continue;
      table_[hole] = std::exchange(table_[i], nullptr);
      hole = i;
    }
  }
  void enlarge() {
    const size_t size = std::max<size_t>(64, 2 * table_.size());
    shift_ = 64 - std::countr_zero(size);
    table_.assign(size, nullptr);
    for (Pending* pending : heap_) table_[slot_of(pending->node.get())] = pending;
  }

  Pending* take_spare() {
    if (spare_.empty()) {
      owned_.push_back(std::make_unique<Pending>());
      return owned_.back().get();
    }
    Pending* pending = spare_.back();
    spare_.pop_back();
    return pending;
  }

  std::vector<Pending*> heap_;
  std::vector<Pending*> table_;
  int shift_ = 64;
  std::vector<std::unique_ptr<Pending>> owned_;
  std::vector<Pending*> spare_;
};

void accumulate(Tensor& into, Tensor&& grad) {
  if (!grad.defined()) return;
  if (!into.defined()) {
    into = std::move(grad);
    return;
  }
  const bool sole_owner = into.impl().use_count() == 1 && into.impl().storage->use_count() == 1;
  if (sole_owner && !is_grad_enabled() && into.dtype() == grad.dtype() &&
      into.sizes() == grad.sizes() && !may_overlap_itself(into.sizes(), into.strides())) {
    engine_ops().add_(into, grad);
  } else {
    into = engine_ops().add(into, grad);
  }
}

struct Capture {
  const Node* node;
  uint32_t output;
  Tensor grad;
};

// The nodes from which a capture can be reached; all others need not run.
std::unordered_set<const Node*> nodes_towards(const std::vector<Capture>& captures,
                                              std::span<const Edge> roots) {
  std::unordered_set<const Node*> wanted, seen;
  for (const Capture& capture : captures) wanted.insert(capture.node);
  struct Step {
    const Node* node;
    size_t next_edge;
  };
  std::vector<Step> path;
  for (const Edge& root : roots) {
    if (root.node && seen.insert(root.node.get()).second) path.push_back({root.node.get(), 0});
    while (!path.empty()) {
      Step& step = path.back();
      if (step.next_edge == step.node->edges().size()) {
        const Node* done = step.node;
        path.pop_back();
        if (wanted.contains(done) && !path.empty()) wanted.insert(path.back().node);
        continue;
      }
      const Node* next = step.node->edges()[step.next_edge++].node.get();
      if (!next) continue;
      if (seen.insert(next).second) path.push_back({next, 0});
      else if (wanted.contains(next)) wanted.insert(step.node);
    }
  }
  return wanted;
}

class Run {
 public:
  Run(BackwardOptions options, std::vector<Capture>* captures)
      : options_(options), captures_(captures) {}

  void go(std::span<const Edge> roots, std::span<Tensor> grads) {
    const GradModeGuard mode(options_.create_graph);
    std::unordered_set<const Node*> wanted;
    if (captures_) wanted = nodes_towards(*captures_, roots);
    for (size_t i = 0; i < roots.size(); ++i)
      if (roots[i].node) deliver(roots[i], std::move(grads[i]), wanted);
    while (!pending_.empty()) {
      Pending current = pending_.pop();
      step(current, wanted);
    }
  }

 private:
  void deliver(const Edge& edge, Tensor&& grad, const std::unordered_set<const Node*>& wanted) {
    if (captures_ && !wanted.contains(edge.node.get())) return;
    if (!captures_ && edge.node->is_leaf() && !edge.node->has_hooks()) {
      // Sums commute: a leaf can take each part as it comes, and nothing has to wait.
      Tensors grads;
      grads.push_back(std::move(grad));
      edge.node->backward(std::move(grads));
      return;
    }
    accumulate(pending_.at(edge.node).grads[edge.output], std::move(grad));
  }

  void step(Pending& current, const std::unordered_set<const Node*>& wanted) {
    Node& node = *current.node;
    if (node.has_hooks()) run_hooks(node, current.grads);
    if (captures_ && capture(node, current.grads)) return;
    if (std::none_of(current.grads.begin(), current.grads.end(),
                     [](const Tensor& grad) { return grad.defined(); }))
      return;
    Tensors results = node.backward(std::move(current.grads));
    if (!options_.retain_graph) node.release();
    if (is_anomaly_enabled()) check_anomaly(node, results);
    const std::span<const Edge> edges = node.edges();
    for (size_t i = 0; i < results.size() && i < edges.size(); ++i)
      if (edges[i].node && results[i].defined()) deliver(edges[i], std::move(results[i]), wanted);
  }

  static void run_hooks(Node& node, Tensors& grads) {
    for (GradHook& hook : std::vector<GradHook>(node.hooks())) {
      Tensor& grad = grads[hook.output];
      if (!grad.defined()) continue;
      if (Tensor replaced = hook.call(grad); replaced.defined()) grad = std::move(replaced);
    }
  }

  // Keeps what was asked for. True when nothing beyond this node is wanted.
  bool capture(const Node& node, const Tensors& grads) {
    for (Capture& wanted : *captures_)
      if (wanted.node == &node) wanted.grad = grads[wanted.output];
    return node.is_leaf();  // captured instead of accumulated
  }

  static void check_anomaly(const Node& node, const Tensors& results) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined() || !engine_ops().has_nan(results[i])) continue;
      fail("anomaly: the backward of '", node.name(), "' returned NaN for input ", i,
           node.created_at ? concat("; its forward was called from:\n", *node.created_at) : "");
    }
  }

  BackwardOptions options_;
  std::vector<Capture>* captures_;
  PendingSet pending_;
};

// Checks outputs and fills in the gradients that were left out.
void prepare_roots(std::string_view op, std::span<const Tensor> outputs,
                   std::span<const Tensor> gradients, std::vector<Edge>& roots,
                   std::vector<Tensor>& grads) {
  check(gradients.empty() || gradients.size() == outputs.size(), op, ": expected ", outputs.size(),
        " gradients, got ", gradients.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    check(output.requires_grad(), op, ": output ", i,
          " does not require grad and has no history; was it computed under no_grad, or from "
          "tensors without requires_grad?");
    Tensor gradient = gradients.empty() ? Tensor() : gradients[i];
    if (!gradient.defined()) {
      check(output.numel() == 1, op, ": the gradient can be left out only for a single-element "
            "output, got shape ", output.sizes());
      gradient = engine_ops().ones_like(output);
    }
    check(gradient.sizes() == output.sizes(), op, ": the gradient of an output of shape ",
          output.sizes(), " cannot have shape ", gradient.sizes());
    roots.push_back(gradient_edge(output));
    grads.push_back(std::move(gradient));
  }
}

}  // namespace

void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
              BackwardOptions options) {
  std::vector<Edge> roots;
  std::vector<Tensor> grads;
  prepare_roots("backward", outputs, gradients, roots, grads);
  options.retain_graph |= options.create_graph;
  Run(options, nullptr).go(roots, grads);
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> gradients, BackwardOptions options) {
  std::vector<Edge> roots;
  std::vector<Tensor> grads;
  prepare_roots("grad", outputs, gradients, roots, grads);
  options.retain_graph |= options.create_graph;
  std::vector<Capture> captures;
  std::vector<Edge> kept_alive;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i].requires_grad(), "grad: input ", i, " does not require grad");
    kept_alive.push_back(gradient_edge(inputs[i]));
    captures.push_back({kept_alive.back().node.get(), kept_alive.back().output, {}});
  }
  Run(options, &captures).go(roots, grads);
  std::vector<Tensor> result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(captures[i].grad.defined() || options.allow_unused, "grad: input ", i,
          " was not used to compute the outputs; pass allow_unused to get an undefined gradient");
    result.push_back(std::move(captures[i].grad));
  }
  return result;
}

}  // namespace tensora

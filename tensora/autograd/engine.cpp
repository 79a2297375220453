#include "tensora/autograd/engine.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "tensora/autograd/call_stack.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/autograd/node_hooks.h"
#include "tensora/autograd/pending_set.h"
#include "tensora/autograd/queues.h"
#include "tensora/autograd/sparse_gradient.h"
#include "tensora/autograd/unit_gradient.h"
#include "tensora/core/deferred.h"
#include "tensora/core/determinism.h"

namespace tensora {
namespace {

// Note [Order of backward]
// A node's rank is its position in the order of creation, given by a Lamport clock: each thread
// counts, and a node with an edge to a node of another thread takes a greater rank than that one.
// So a node outranks all its successors, and when the pending node of highest rank is taken, no
// further gradient can arrive at it: no pass to count dependencies is needed. Backward visits nodes
// in the reverse order of forward, so there are never more pending nodes than forward had live
// tensors.
//
// A leaf accumulates each part of its gradient as it arrives, because sums commute. Only a leaf
// with hooks has to wait until the gradient is complete, and must not wait longer: its hooks send
// gradients to other processes, or step the optimizer, while backward is still running. It runs
// immediately after the last of its users, the one of lowest rank. Which one that is depends on the
// graph (a leaf may be part of many), so it is found by traversing this graph; in a process without
// such leaves the traversal is skipped.
//
// In deterministic mode every leaf waits. Otherwise a leaf with two users that has a gradient
// already would get (gradient + first part) + second part, and the same leaf with a hook gradient +
// (first part + second part): training with hooks would give other bits than training without.
Place place_of(const Node& node) { return 2 * node.rank(); }
Place place_behind(const Node& node) { return 2 * node.rank() - 1; }

void accumulate(Tensor& into, Tensor&& grad) {
  if (!grad.defined()) return;
  if (!into.defined()) {
    into = std::move(grad);
    return;
  }
  if (is_sparse(into) || is_sparse(grad)) [[unlikely]] {
    into = sum_of_sparse(into, grad);
    return;
  }
  const bool sole_owner = into.impl().use_count() == 1 && owner_count(*into.impl().storage) == 1;
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

// Which nodes have to run so that gradients reach the captures; all others need not.
struct Plan {
  std::unordered_set<const Node*> captured;
  std::unordered_set<const Node*> executed;  // those with a capture beyond them
  bool wants(const Node* node) const { return executed.contains(node) || captured.contains(node); }
};

// `stop_at_captures`: nothing flows past a capture, even if another one lies beyond it.
Plan make_plan(const std::vector<Capture>& captures, std::span<const Edge> roots,
               bool stop_at_captures) {
  Plan plan;
  std::unordered_set<const Node*> seen;
  for (const Capture& capture : captures)
    if (capture.node) plan.captured.insert(capture.node);
  struct Step {
    const Node* node;
    size_t next_edge;
  };
  std::vector<Step> path;
  const auto enter = [&](const Node* node) {
    const bool end = stop_at_captures && plan.captured.contains(node);
    if (seen.insert(node).second && !end)
      path.push_back({node, 0});
    else if (!path.empty() && plan.wants(node))
      plan.executed.insert(path.back().node);
  };
  for (const Edge& root : roots) {
    if (root.node) enter(root.node.get());
    while (!path.empty()) {
      Step& step = path.back();
      if (step.next_edge < step.node->edges().size()) {
        if (const Node* next = step.node->edges()[step.next_edge++].node.get()) enter(next);
        continue;
      }
      const Node* done = step.node;
      path.pop_back();
      if (!path.empty() && plan.wants(done)) plan.executed.insert(path.back().node);
    }
  }
  return plan;
}

bool waits_for_all(const Node& leaf, bool deterministic) {
  return deterministic || static_cast<const AccumulateGrad&>(leaf).waits_for_all();
}

// The places of the leaves that wait for their whole gradient. `wants` says which nodes will run.
template <class Wants>
std::unordered_map<const Node*, Place> places_of_leaves(std::span<const Edge> roots,
                                                        bool deterministic, Wants wants) {
  std::unordered_map<const Node*, Place> places;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> path;
  for (const Edge& root : roots)
    if (root.node && seen.insert(root.node.get()).second) path.push_back(root.node.get());
  while (!path.empty()) {
    const Node& node = *path.back();
    path.pop_back();
    if (!wants(node)) continue;
    for (const Edge& edge : node.edges()) {
      if (!edge.node) continue;
      if (edge.node->is_leaf()) {
        if (!waits_for_all(*edge.node, deterministic)) continue;
        Place& place = places.try_emplace(edge.node.get(), ~Place{0}).first->second;
        place = std::min(place, place_behind(node));
      } else if (seen.insert(edge.node.get()).second) {
        path.push_back(edge.node.get());
      }
    }
  }
  return places;
}

using Callbacks = std::vector<std::function<void()>>;
thread_local constinit Callbacks* callbacks_of_run = nullptr;

// What is queued by queue_callback while it lives.
class CallbackQueue {
 public:
  CallbackQueue() : outer_(std::exchange(callbacks_of_run, &queued_)) {}
  ~CallbackQueue() { callbacks_of_run = outer_; }
  CallbackQueue(const CallbackQueue&) = delete;
  CallbackQueue& operator=(const CallbackQueue&) = delete;

  void run() {
    for (size_t i = 0; i < queued_.size(); ++i) {
      const std::function<void()> callback =
          std::move(queued_[i]);  // others may be added meanwhile
      callback();
    }
  }

 private:
  Callbacks queued_;
  Callbacks* outer_;
};

// The gradients of 1 that the run of this thread began with; kept, so that no other tensor has
// their address.
struct UnitGradients {
  struct One {
    Tensor tensor;
    uint32_t version;
  };
  std::vector<One> all;
  UnitGradients* outer;
};
thread_local constinit UnitGradients* units_of_run = nullptr;

class UnitGradientScope {
 public:
  UnitGradientScope(std::span<const Tensor> given, std::span<const Tensor> grads)
      : own_{{}, std::exchange(units_of_run, &own_)} {
    for (size_t i = 0; i < grads.size(); ++i)
      if (given.empty() || !given[i].defined()) own_.all.push_back({grads[i], grads[i].version()});
  }
  ~UnitGradientScope() { units_of_run = own_.outer; }
  UnitGradientScope(const UnitGradientScope&) = delete;
  UnitGradientScope& operator=(const UnitGradientScope&) = delete;

 private:
  UnitGradients own_;
};

// What the gradients of this thread's run are for, if only some are asked for.
thread_local constinit const Plan* plan_of_run = nullptr;

class PlanScope {
 public:
  explicit PlanScope(const Plan* plan) : outer_(std::exchange(plan_of_run, plan)) {}
  ~PlanScope() { plan_of_run = outer_; }
  PlanScope(const PlanScope&) = delete;
  PlanScope& operator=(const PlanScope&) = delete;

 private:
  const Plan* outer_;
};

class Run {
 public:
  explicit Run(BackwardOptions options) : options_(options) {}

  /// Gradients end in `captures` instead of being accumulated into leaves.
  void capture_into(std::vector<Capture>& captures, std::span<const Edge> roots,
                    bool stop_at_captures) {
    captures_ = &captures;
    stop_at_captures_ = stop_at_captures;
    plan_ = make_plan(captures, roots, stop_at_captures);
  }

  /// A run that the user asked for, and that ends with the callbacks.
  void go(std::span<const Edge> roots, std::span<Tensor> grads) {
    const GradModeGuard mode(options_.create_graph);
    CallbackQueue callbacks;
    go_through(roots, grads);
    callbacks.run();
  }

  /// A run that is part of another one.
  void go_within(std::span<const Edge> roots, std::span<Tensor> grads) {
    const GradModeGuard mode(options_.create_graph);
    go_through(roots, grads);
  }

 private:
  void go_through(std::span<const Edge> roots, std::span<Tensor> grads) {
    if (deterministic_ || AccumulateGrad::hook_count().load(std::memory_order_relaxed) > 0)
      leaves_ = places_of_leaves(roots, deterministic_, [&](const Node& node) {
        return !captures_ || plan_.executed.contains(&node);
      });
    for (size_t i = 0; i < roots.size(); ++i)
      if (roots[i].node) deliver(roots[i], std::move(grads[i]), Queue());
    while (!pending_.empty()) {
      Pending& current = pending_.take();
      step(current);
      pending_.give_back(current);
    }
  }

  // A leaf that is not in the list got its hook during this run, and runs last.
  Place place_in_run(const Node& node) const {
    if (!node.is_leaf()) return place_of(node);
    const auto listed = leaves_.find(&node);
    return listed == leaves_.end() ? 0 : listed->second;
  }

  /// `made_on`: the queue of the node that the gradient comes from.
  void deliver(const Edge& edge, Tensor&& grad, const Queue& made_on) {
    if (captures_ && !plan_.wants(edge.node.get())) return;
    const Queue queue = queues_.of(*edge.node);
    queues_.hand_over(grad, made_on, queue);
    const QueueScope scope(queue);
    if (is_sparse(grad) && !edge.node->is_leaf()) [[unlikely]]
      grad = dense_of(grad);
    if (!captures_ && edge.node->is_leaf() && !waits_for_all(*edge.node, deterministic_)) {
      Tensors grads;
      grads.push_back(std::move(grad));
      edge.node->backward(std::move(grads));
      return;
    }
    Pending& pending = pending_.at(edge.node, [&](const Node& node) { return place_in_run(node); });
    if (edge.node->is_leaf())
      ensure(!finished_leaves_.contains(edge.node.get()),
             "a part of a leaf's gradient came after its hooks had run");
    accumulate(pending.grads[edge.output], std::move(grad));
  }

  void step(Pending& current) {
    Node& node = *current.node;
    if (node.is_leaf()) finished_leaves_.insert(&node);
    const Queue queue = queues_.of(node);
    std::optional<QueueScope> scope(queue);
    const bool captured = captures_ && plan_.captured.contains(&node);
    if (!(captured && stop_at_captures_)) node.run_hooks(current.grads);
    if (captures_) {
      if (captured) capture(node, current.grads, queue);
      if (!plan_.executed.contains(&node)) return;
    }
    if (std::none_of(current.grads.begin(), current.grads.end(),
                     [](const Tensor& grad) { return grad.defined(); }))
      return;
    Tensors output_grads;
    if (has_node_hooks(node)) {
      run_hooks_before(node, current.grads);
      output_grads = current.grads;
    }
    Tensors results = [&] {
      const PlanScope plan(captures_ ? &plan_ : nullptr);
      return node.backward(std::move(current.grads));
    }();
    if (has_node_hooks(node)) run_hooks_after(node, results, output_grads);
    if (!options_.retain_graph) node.release();
    if (is_anomaly_enabled()) check_anomaly(node, results);
    scope.reset();
    const std::span<const Edge> edges = node.edges();
    for (size_t i = 0; i < results.size() && i < edges.size(); ++i)
      if (edges[i].node && results[i].defined()) deliver(edges[i], std::move(results[i]), queue);
  }

  void capture(const Node& node, const Tensors& grads, const Queue& queue) {
    for (Capture& wanted : *captures_) {
      if (wanted.node != &node) continue;
      wanted.grad = grads[wanted.output];
      queues_.hand_over(wanted.grad, queue, Queue());
    }
  }

  static void check_anomaly(const Node& node, const Tensors& results) {
    for (size_t i = 0; i < results.size(); ++i) {
      const SparseParts* const parts = sparse_parts(results[i]);
      if (!results[i].defined() || !engine_ops().has_nan(parts ? parts->values : results[i]))
        continue;
      fail("anomaly: the backward of '", node.name(), "' returned NaN for input ", i,
           node.created_at()
               ? concat("; its forward was called from:\n", node.created_at()->to_string())
               : "");
    }
  }

  BackwardOptions options_;
  const bool deterministic_ = is_deterministic();
  std::vector<Capture>* captures_ = nullptr;
  bool stop_at_captures_ = false;
  Plan plan_;
  std::unordered_map<const Node*, Place> leaves_;
  std::unordered_set<const Node*> finished_leaves_;  // those that waited, and ran
  PendingSet pending_;
  const BackwardQueues queues_;
};

// The gradient that `output` starts with: what the user gave, or 1.
Tensor root_gradient(std::string_view op, const Tensor& output, const Tensor& given) {
  if (!given.defined()) {
    check(output.numel() == 1, op,
          ": grad can be implicitly created only for scalar outputs, which are single-element "
          "tensors; got shape ",
          output.sizes());
    check(!output.is_complex(), op,
          ": grad can be implicitly created only for real scalar outputs but got ", output.dtype());
    return engine_ops().ones_like(output);
  }
  check(given.sizes() == output.sizes(), op, ": the gradient of an output of shape ",
        output.sizes(), " cannot have shape ", given.sizes());
  check(given.device() == output.device(), op, ": the gradient of an output on ", output.device(),
        " cannot be on ", given.device());
  if (is_sparse(given)) return root_gradient(op, output, dense_of(given));
  if (given.dtype() == output.dtype()) return given;
  return engine_ops().cast(given, output.dtype(), output.device());
}

// Checks outputs and fills in the gradients that were left out.
void prepare_roots(std::string_view op, std::span<const Tensor> outputs,
                   std::span<const Tensor> gradients, std::vector<Edge>& roots,
                   std::vector<Tensor>& grads) {
  check(gradients.empty() || gradients.size() == outputs.size(), op, ": expected ", outputs.size(),
        " gradients, got ", gradients.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    Edge root = gradient_edge(outputs[i]);
    check(static_cast<bool>(root.node), op, ": output ", i,
          " does not require grad and has no history; was it computed under no_grad, or from "
          "tensors without requires_grad?");
    roots.push_back(std::move(root));
    grads.push_back(root_gradient(op, outputs[i], gradients.empty() ? Tensor() : gradients[i]));
  }
}

}  // namespace

void queue_callback(std::function<void()> callback) {
  check(callbacks_of_run != nullptr,
        "queue_callback: no backward is running on this thread, so there is no end to wait for");
  callbacks_of_run->push_back(std::move(callback));
}

void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
              BackwardOptions options) {
  std::vector<Edge> roots;
  std::vector<Tensor> grads;
  prepare_roots("backward", outputs, gradients, roots, grads);
  options.retain_graph |= options.create_graph;
  const UnitGradientScope units(gradients, grads);
  Run(options).go(roots, grads);
}

void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
              BackwardOptions options, std::span<const Tensor> inputs) {
  check(!inputs.empty(), "backward: `inputs` cannot be empty");
  options.allow_unused = true;
  const std::vector<Tensor> grads = grad(outputs, inputs, gradients, options);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!grads[i].defined()) continue;
    Tensor& sum = inputs[i].mutable_grad();
    sum = sum.defined() ? sum_of_sparse(sum, grads[i]) : grads[i];
  }
}

bool is_gradient_wanted(const Node& node) { return !plan_of_run || plan_of_run->wants(&node); }

Tensors backward_within(Node& node, Tensors grads) {
  const PlanScope scope(nullptr);
  return node.backward(std::move(grads));
}

bool is_unit_gradient(const Tensor& gradient) {
  if (!units_of_run || !gradient.defined()) return false;
  return std::ranges::any_of(units_of_run->all, [&](const UnitGradients::One& one) {
    return &one.tensor.impl() == &gradient.impl() && one.version == gradient.version();
  });
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> gradients, BackwardOptions options) {
  check(!inputs.empty(), "grad: `inputs` must not be empty");
  std::vector<Edge> roots;
  std::vector<Tensor> grads;
  prepare_roots("grad", outputs, gradients, roots, grads);
  options.retain_graph |= options.create_graph;
  std::vector<Capture> captures;
  std::vector<Edge> kept_alive;
  for (size_t i = 0; i < inputs.size(); ++i) {
    kept_alive.push_back(gradient_edge(inputs[i]));
    check(static_cast<bool>(kept_alive.back().node), "grad: input ", i, " does not require grad");
    captures.push_back({kept_alive.back().node.get(), kept_alive.back().output, {}});
  }
  Run run(options);
  run.capture_into(captures, roots, /*stop_at_captures=*/false);
  run.go(roots, grads);
  std::vector<Tensor> result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(captures[i].grad.defined() || options.allow_unused, "grad: input ", i,
          " was not used to compute the outputs; pass allow_unused to get an undefined gradient");
    result.push_back(std::move(captures[i].grad));
  }
  return result;
}

std::vector<Tensor> grad(const Tensor& output, const std::vector<Tensor>& inputs,
                         BackwardOptions options) {
  return grad(std::span(&output, 1), inputs, {}, options);
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& gradients, BackwardOptions options) {
  return grad(std::span(outputs), inputs, gradients, options);
}

std::vector<Tensor> gradients_at(std::span<const Edge> targets, std::span<const Edge> roots,
                                 std::vector<Tensor> gradients, BackwardOptions options) {
  std::vector<Capture> captures;
  for (const Edge& target : targets) captures.push_back({target.node.get(), target.output, {}});
  Run run(options);
  run.capture_into(captures, roots, /*stop_at_captures=*/true);
  run.go_within(roots, gradients);
  std::vector<Tensor> result;
  for (Capture& capture : captures) result.push_back(std::move(capture.grad));
  return result;
}

}  // namespace tensora

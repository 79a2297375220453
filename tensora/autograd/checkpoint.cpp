#include "tensora/autograd/checkpoint.h"

#include <atomic>
#include <unordered_set>

#include "tensora/autograd/checkpoint_run.h"
#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/autograd/queued_node.h"
#include "tensora/core/random.h"

// Note [Checkpointing]
// The body runs twice with recording on. The first graph serves only to find out which tensors the
// body captured (parameters, usually): their edges become edges of the checkpoint's node, beside
// those of the inputs, and the graph is dropped. Backward builds the graph again and runs it from
// the outputs to those edges. So the checkpoint is an ordinary node: grad(), hooks, nesting and
// higher orders need no special treatment. A node knows the checkpoint in whose body it was created
// (`region`); the search ends at nodes that were created elsewhere.

namespace tensora {
namespace {

using Body = std::function<TensorList(const TensorList&)>;

// Between an input and its alias inside the body; where the inner graph ends.
class CheckpointInput final : public Node, public Pooled {
 public:
  std::string_view name() const override { return "checkpoint input"; }
  Tensors backward(Tensors grads) override { return grads; }
};

// Makes the graph nodes of a scope members of a new region, which contains those of the scopes
// within it: a body that computes gradients through a checkpoint of its own has results whose graph
// consists of the inner checkpoint's second run, too.
class RegionScope {
 public:
  RegionScope()
      : region_(++last_region),
        saved_(std::exchange(thread_state.graph_region, region_)),
        outer_(std::exchange(innermost, this)) {}
  ~RegionScope() {
    thread_state.graph_region = saved_;
    innermost = outer_;
    if (!outer_) return;
    outer_->within_.merge(within_);
    outer_->within_.insert(region_);
  }
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

  bool contains(const Node& node) const {
    return node.region() == region_ || within_.contains(node.region());
  }

 private:
  static inline std::atomic<uint32_t> last_region{0};
  static inline thread_local constinit RegionScope* innermost = nullptr;
  uint32_t region_, saved_;
  RegionScope* outer_;
  std::unordered_set<uint32_t> within_;
};

thread_local bool runs_again = false;

// Whether a scope is the second run of a body. A checkpoint within it has a first run of its own.
class RunScope {
 public:
  explicit RunScope(bool again) : saved_(std::exchange(runs_again, again)) {}
  ~RunScope() { runs_again = saved_; }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  bool saved_;
};

// One run of the body: its outputs, and where its graph touches the outside.
struct Recording {
  TensorList outputs;
  std::vector<Edge> entries;   // one per input; empty where no gradient is wanted
  std::vector<Edge> captured;  // what the body took from elsewhere
};

Tensor alias_of(const Tensor& input, Edge& entry) {
  if (!input.defined()) return {};
  const Edge edge = gradient_edge(input);
  if (!edge.node) return input;
  Tensor alias = shallow_detach(input);
  NodePtr node = NodePtr::adopt(new CheckpointInput);
  node->add_edge(edge);
  set_history(alias, node, 0);
  entry = {std::move(node), 0};
  return alias;
}

// The edges that lead out of the region, in the order in which a walk from the outputs meets them.
std::vector<Edge> edges_leaving(const RegionScope& region, const TensorList& outputs,
                                const std::vector<Edge>& entries) {
  std::unordered_set<const Node*> seen;
  for (const Edge& entry : entries) seen.insert(entry.node.get());
  std::vector<Edge> leaving;
  std::vector<const Node*> path;
  const auto meet = [&](const Edge& edge) {
    if (!edge.node) return;
    if (region.contains(*edge.node)) {
      if (seen.insert(edge.node.get()).second) path.push_back(edge.node.get());
      return;
    }
    for (const Edge& known : leaving)
      if (known.node == edge.node && known.output == edge.output) return;
    leaving.push_back(edge);
  };
  for (const Tensor& output : outputs)
    if (output.defined()) meet(gradient_edge(output));
  while (!path.empty()) {
    const Node* node = path.back();
    path.pop_back();
    for (const Edge& edge : node->edges()) meet(edge);
  }
  return leaving;
}

Recording record(const Body& body, const TensorList& inputs, bool again) {
  const RegionScope region;
  const RunScope run(again);
  const enable_grad recording;
  Recording result;
  TensorList aliases;
  for (const Tensor& input : inputs)
    aliases.push_back(alias_of(input, result.entries.emplace_back()));
  result.outputs = body(aliases);
  result.captured = edges_leaving(region, result.outputs, result.entries);
  return result;
}

// What the second run needs to compute the same as the first: all modes of the thread and the state
// of the random numbers. `record` itself decides about recording.
struct Conditions {
  Modes modes = thread_state;
  PhiloxState random = current_generator().state();
};

class CheckpointNode final : public QueuedNode {
 public:
  CheckpointNode(Body body, const TensorList& inputs, const Conditions& conditions,
                 CheckpointOptions options)
      : body_(std::move(body)), inputs_(inputs), conditions_(conditions), options_(options) {
    note_caller();
    for (const Tensor& input : inputs) {
      versions_.push_back(input.defined() ? input.version() : 0);
      add_edge(input.defined() ? gradient_edge(input) : Edge());
      if (input.defined()) take_queue(input.device());
    }
  }
  std::string_view name() const override { return "checkpoint"; }

  Tensors backward(Tensors grads) override {
    check(!released_,
          "backward: the graph of a checkpoint was already used and freed; pass "
          "retain_graph to the first backward if you need a second one");
    for (size_t i = 0; i < inputs_.size(); ++i)
      check(!inputs_[i].defined() || inputs_[i].version() == versions_[i], "backward: input ", i,
            " of a checkpoint was changed in place since; clone it before");
    const bool create_graph = is_grad_enabled();
    Recording again = record_again();
    require_same_captures(again.captured);

    std::vector<Edge> roots;
    std::vector<Tensor> root_grads;
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      roots.push_back(gradient_edge(again.outputs[i]));
      root_grads.push_back(std::move(grads[i]));
    }
    std::vector<Edge> targets = std::move(again.entries);
    targets.insert(targets.end(), again.captured.begin(), again.captured.end());
    again.outputs.clear();
    Tensors results;
    for (Tensor& grad : gradients_at(targets, roots, std::move(root_grads),
                                     {.retain_graph = create_graph, .create_graph = create_graph}))
      results.push_back(std::move(grad));
    // Hooks that the body put on its inputs belong to this run; those on what it captured see the
    // whole gradient, outside.
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!targets[i].node) continue;
      Tensors one;
      one.push_back(std::move(results[i]));
      targets[i].node->run_hooks(one);
      results[i] = std::move(one[0]);
    }
    return results;
  }

  void release() override {
    released_ = true;
    body_ = nullptr;
    inputs_.clear();
  }

 private:
  Recording record_again() const {
    const ModesScope modes(conditions_.modes);
    Generator generator;
    std::optional<GeneratorScope> random;
    if (options_.preserve_random_state) {
      generator.set_state(conditions_.random);
      random.emplace(generator);
    }
    return record(body_, inputs_, true);
  }

  void require_same_captures(std::span<const Edge> captured) const {
    const std::span<const Edge> before = edges().subspan(inputs_.size());
    bool same = captured.size() == before.size();
    for (size_t i = 0; same && i < before.size(); ++i)
      same = captured[i].node == before[i].node && captured[i].output == before[i].output;
    check(same,
          "backward: the body of a checkpoint used other tensors in its second run than in "
          "its first; it must compute the same thing, and what it captures must not be changed in "
          "place");
  }

  Body body_;
  TensorList inputs_;
  std::vector<uint32_t> versions_;
  Conditions conditions_;
  CheckpointOptions options_;
  bool released_ = false;
};

}  // namespace

bool is_checkpoint_rerun() { return runs_again; }

TensorList checkpoint(const Body& body, const TensorList& inputs, CheckpointOptions options) {
  if (!is_grad_enabled()) return body(inputs);
  const Conditions conditions;
  Recording first = record(body, inputs, false);
  auto node =
      IntrusivePtr<CheckpointNode>::adopt(new CheckpointNode(body, inputs, conditions, options));
  for (const Edge& edge : first.captured) node->add_edge(edge);
  node->set_output_count(static_cast<uint32_t>(first.outputs.size()));
  uint32_t index = 0;
  for (Tensor& output : first.outputs) {
    if (output.defined() && gradient_edge(output).node) {
      output = shallow_detach(output);
      set_history(output, NodePtr::share(node.get()), index);
    }
    ++index;
  }
  return std::move(first.outputs);
}

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& body, const Tensor& input,
                  CheckpointOptions options) {
  return checkpoint([body](const TensorList& inputs) { return TensorList{body(inputs[0])}; },
                    TensorList{input}, options)[0];
}

Tensor checkpoint_sequential(const std::vector<std::function<Tensor(const Tensor&)>>& functions,
                             int64_t segments, const Tensor& input, CheckpointOptions options) {
  const auto count = static_cast<int64_t>(functions.size());
  check(segments >= 1 && segments <= count,
        "checkpoint_sequential: expected segments between 1 and the number of functions, ", count,
        ", got ", segments);
  const int64_t length = count / segments;
  const auto run = [](const auto& some, Tensor x) {
    for (const auto& function : some) x = function(x);
    return x;
  };
  Tensor x = input;
  for (int64_t s = 0; s + 1 < segments; ++s) {
    const auto begin = functions.begin() + s * length;
    // Backward runs it again, when the caller's list may be gone.
    x = checkpoint([run, some = std::vector(begin, begin + length)](
                       const Tensor& in) { return run(some, in); },
                   x, options);
  }
  return run(std::vector(functions.begin() + (segments - 1) * length, functions.end()), x);
}

}  // namespace tensora

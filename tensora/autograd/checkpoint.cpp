#include "tensora/autograd/checkpoint.h"

#include <atomic>
#include <unordered_set>

#include "tensora/autograd/engine.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/queued_node.h"
#include "tensora/core/random.h"

// Note [Checkpointing]
// The body runs twice with recording on. The first graph serves only to find out which tensors the
// body captured (parameters, usually): their edges become edges of the checkpoint's node, beside
// those of the inputs, and the graph is dropped. Backward builds the graph again and runs it from
// the outputs to those edges. So the checkpoint is an ordinary node: grad(), hooks, nesting and
// higher orders need no special treatment. Nodes know in whose body they were made (`region`);
// everything made elsewhere lies outside and is where the search ends.

namespace tensora {
namespace {

using Body = std::function<TensorList(const TensorList&)>;

// Between an input and its alias inside the body; where the inner graph ends.
class CheckpointInput final : public Node, public Pooled {
 public:
  std::string_view name() const override { return "checkpoint input"; }
  Tensors backward(Tensors grads) override { return grads; }
};

// Makes the graph nodes of a scope members of a new region.
class RegionScope {
 public:
  RegionScope() : saved_(std::exchange(thread_state.graph_region, ++last_region)) {}
  ~RegionScope() { thread_state.graph_region = saved_; }
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  static inline std::atomic<uint32_t> last_region{0};
  uint32_t saved_;
};

// The switches that decide what the body computes, as they were in the first run.
class Modes {
 public:
  Modes() : state_(thread_state), random_(current_generator().state()) {}

  /// Sets them for a scope.
  class Scope {
   public:
    Scope(const Modes& modes, bool with_random) : saved_(thread_state) {
      thread_state.autocast_enabled = modes.state_.autocast_enabled;
      thread_state.autocast_dtype = modes.state_.autocast_dtype;
      if (!with_random) return;
      generator_.set_state(modes.random_);
      random_.emplace(generator_);
    }
    ~Scope() {
      thread_state.autocast_enabled = saved_.autocast_enabled;
      thread_state.autocast_dtype = saved_.autocast_dtype;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ThreadState saved_;
    Generator generator_;
    std::optional<GeneratorScope> random_;
  };

 private:
  ThreadState state_;
  PhiloxState random_;
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
std::vector<Edge> edges_leaving(uint32_t region, const TensorList& outputs,
                                const std::vector<Edge>& entries) {
  std::unordered_set<const Node*> seen;
  for (const Edge& entry : entries) seen.insert(entry.node.get());
  std::vector<Edge> leaving;
  std::vector<const Node*> path;
  const auto meet = [&](const Edge& edge) {
    if (!edge.node) return;
    if (edge.node->region() == region) {
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

Recording record(const Body& body, const TensorList& inputs) {
  const RegionScope region;
  const enable_grad recording;
  Recording result;
  TensorList aliases;
  for (const Tensor& input : inputs)
    aliases.push_back(alias_of(input, result.entries.emplace_back()));
  result.outputs = body(aliases);
  result.captured = edges_leaving(thread_state.graph_region, result.outputs, result.entries);
  return result;
}

class CheckpointNode final : public QueuedNode {
 public:
  CheckpointNode(Body body, const TensorList& inputs, const Modes& modes, CheckpointOptions options)
      : body_(std::move(body)), inputs_(inputs), modes_(modes), options_(options) {
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
    Recording again;
    {
      const Modes::Scope modes(modes_, options_.preserve_random_state);
      again = record(body_, inputs_);
    }
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
    return results;
  }

  void release() override {
    released_ = true;
    body_ = nullptr;
    inputs_.clear();
  }

 private:
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
  Modes modes_;
  CheckpointOptions options_;
  bool released_ = false;
};

}  // namespace

TensorList checkpoint(const Body& body, const TensorList& inputs, CheckpointOptions options) {
  if (!is_grad_enabled()) return body(inputs);
  const Modes modes;
  Recording first = record(body, inputs);
  auto node = IntrusivePtr<CheckpointNode>::adopt(new CheckpointNode(body, inputs, modes, options));
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

}  // namespace tensora

#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/autograd/history.h"
#include "tensora/core/random.h"
#include "tensora/dispatch/autocast.h"
#include "tensora/jit/graph.h"

namespace tensora::jit {
namespace {

using Kind = GraphNode::Kind;

// Graphs run under no_grad, and the history of a view taken there is never renewed.
class UnrecordedView final : public ViewStep, public Pooled {
 public:
  Tensor apply_to(const Tensor&) const override {
    fail_internal("jit: a view that was taken without recording has no history to renew");
  }
};

Tensor part_of(const Tensor& tensor, const Part& part) {
  const int64_t start = bytes_of(tensor.dtype(), tensor.storage_offset());
  const DTypeInfo& info = dtype_info(part.dtype);
  return make_view(tensor.impl().storage, part.sizes, part.strides,
                   (start + part.offset_bytes) / info.block_bytes * info.block_numbers, part.dtype);
}

Tensor make_like(const Value& value) {
  Tensor result = make_tensor(value.sizes, value.strides, value.dtype, value.device);
  result.impl().inference = thread_state.inference_mode;
  return result;
}

// The attributes of a random op, with its offset relative to the start of this run.
std::vector<std::pair<std::string, AttrValue>> drawn_anew(const GraphNode& node,
                                                          PhiloxState stream) {
  std::vector<std::pair<std::string, AttrValue>> attrs;
  for (const auto& [name, value] : node.op->list_attrs(node.attrs.get())) {
    AttrValue& now = attrs.emplace_back(name, value).second;
    if (name == "seed") now = to_attr_value(uint64_t{stream.seed});
    if (name == "offset")
      now = to_attr_value(static_cast<uint64_t>(value.integer) + uint64_t{stream.offset});
  }
  return attrs;
}

/// One run of a graph, node by node. In a lazy scope the kernels are fused like all others.
class GraphRun {
 public:
  explicit GraphRun(const Graph& graph) : graph_(graph), last_uses_(graph.nodes.size()) {
    // Going backwards from the last node, the first mention of a value is its last use.
    std::vector<bool> needed(graph.values.size(), false);
    for (int id : graph.outputs) needed[static_cast<size_t>(id)] = true;
    for (size_t i = graph.nodes.size(); i-- > 0;)
      for (const std::vector<int>* ids : {&graph.nodes[i].outputs, &graph.nodes[i].inputs})
        for (int id : *ids) {
          if (id < 0 || needed[static_cast<size_t>(id)]) continue;
          needed[static_cast<size_t>(id)] = true;
          last_uses_[i].push_back(id);
        }
  }

  void check_inputs(std::span<const Tensor> inputs) const {
    check(inputs.size() == graph_.inputs.size(), "jit: the graph has ", graph_.inputs.size(),
          " inputs, got ", inputs.size());
    const std::string found = layout_of(inputs, graph_.depends_on_offsets);
    check(found == graph_.layout, "jit: the graph was traced on inputs ", graph_.layout, ", got ",
          found);
    check_memory(inputs);
    if (!thread_state.grad_enabled) return;
    for (size_t i = 0; i < inputs.size(); ++i)
      check(!inputs[i].requires_grad(), "jit: input ", i,
            " requires grad, and gradients through a graph are not supported; use no_grad or "
            "detach it");
    for (const Value& value : graph_.values)
      check(!value.constant.defined() || !value.constant.requires_grad(),
            "jit: the function captured a tensor of shape ", value.sizes,
            " that requires grad, and gradients through a graph are not supported; use no_grad or "
            "detach it");
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) {
    const no_grad silent;
    const autocast as_traced({.enabled = false});  // the casts are in the graph
    if (graph_.random_counters != 0) stream_ = current_generator().reserve(graph_.random_counters);
    for (const Value& value : graph_.values) values_.push_back(value.constant);
    for (size_t i = 0; i < inputs.size(); ++i)
      values_[static_cast<size_t>(graph_.inputs[i])] = inputs[i];
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      run_node(i);
      for (int id : last_uses_[i]) values_[static_cast<size_t>(id)] = {};
    }
    std::vector<Tensor> results;
    for (int id : graph_.outputs) results.push_back(values_[static_cast<size_t>(id)]);
    return results;
  }

 private:
  // The trace assumed that inputs and captured tensors do not share memory.
  void check_memory(std::span<const Tensor> inputs) const {
    std::vector<bool> is_updated(graph_.values.size(), false);
    for (const GraphNode& node : graph_.nodes)
      if (node.kind == Kind::update) is_updated[static_cast<size_t>(node.inputs[0])] = true;
    for (size_t i = 0; i < inputs.size(); ++i)
      for (size_t id = 0; id < graph_.values.size(); ++id) {
        const Tensor& constant = graph_.values[id].constant;
        if (!constant.defined() || !constant.shares_storage(inputs[i])) continue;
        check(
            !is_updated[id] && !is_updated[static_cast<size_t>(graph_.inputs[i])], "jit: input ", i,
            " shares its memory with a tensor that the function captured, and the function writes "
            "there; pass the tensor as an input, or clone it");
      }
  }

  static Tensor written(const Value& value, const Part& part, Tensor root, const Tensor& source) {
    const bool whole = part.offset_bytes == 0 && part.dtype == value.dtype &&
                       part.sizes == value.sizes && part.strides == value.strides;
    // Memory with no other owner is written in place.
    const bool owned = root.impl().use_count() == 1 && root.impl().storage->use_count() == 1;
    Tensor result = owned ? std::move(root) : make_like(value);
    if (!owned && !whole) engine_ops().copy_(result, root);
    engine_ops().copy_(whole ? result : part_of(result, part), source);
    return result;
  }

  void run_node(size_t index) {
    const GraphNode& node = graph_.nodes[index];
    const std::vector<int>& dying = last_uses_[index];
    static const Tensor undefined;
    const auto at = [&](int id) -> Tensor& { return values_[static_cast<size_t>(id)]; };
    switch (node.kind) {
      case Kind::op: {
        SmallVector<Arg, 4> args;
        for (int id : node.inputs) args.emplace_back(id < 0 ? undefined : at(id));
        Tensors results;
        const auto apply_with = [&](const void* attrs) {
          results = detail::apply_all(*node.op, {args.data(), args.size()}, attrs);
        };
        if (node.random)
          node.op->with_attrs(*node.op, drawn_anew(node, stream_), apply_with);
        else
          apply_with(node.attrs.get());
        for (size_t i = 0; i < results.size(); ++i) {
          const Value& value = graph_.value(node.outputs[i]);
          // On a device that runs the op's definition the result may have other strides.
          if (results[i].strides() != value.strides) {
            const Tensor laid_out = make_like(value);
            engine_ops().copy_(laid_out, results[i]);
            results[i] = laid_out;
          }
          at(node.outputs[i]) = std::move(results[i]);
        }
        return;
      }
      case Kind::view: {
        const Tensor& source = at(node.inputs[0]);
        Tensor view = part_of(source, node.part);
        if (source.is_inference())
          view.impl().inference = true;
        else
          track_view(view, source, IntrusivePtr<UnrecordedView>::adopt(new UnrecordedView));
        at(node.outputs[0]) = std::move(view);
        return;
      }
      case Kind::write: {
        Tensor& root = at(node.inputs[0]);
        const bool dies = std::find(dying.begin(), dying.end(), node.inputs[0]) != dying.end();
        at(node.outputs[0]) = written(graph_.value(node.outputs[0]), node.part,
                                      dies ? std::move(root) : root, at(node.inputs[1]));
        return;
      }
      case Kind::update:
        engine_ops().copy_(at(node.inputs[0]), at(node.inputs[1]));
        at(node.outputs[0]) = at(node.inputs[0]);
        return;
    }
  }

  const Graph& graph_;
  std::vector<std::vector<int>> last_uses_;  // values that nobody needs after a node
  std::vector<Tensor> values_;
  PhiloxState stream_{};
};

}  // namespace

std::string layout_of(std::span<const Tensor> inputs, bool with_offsets) {
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    check(input.defined(), "jit: input ", i, " of the function is undefined");
    text += concat(i == 0 ? "" : ", ", input.dtype(), " ", input.sizes(), " strides ",
                   input.strides(), " on ", input.device());
    if (input.impl().wrapped_number) text += " (a number)";
    if (input.is_inference()) text += " (inference)";
    size_t first = 0;  // that lies in the same storage
    while (!inputs[first].shares_storage(input)) ++first;
    const bool shared = std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& other) {
      return &other != &input && other.shares_storage(input);
    });
    if (shared || with_offsets)
      text += concat(" at ", input.storage_offset(), " in the ", input.impl().storage->bytes(),
                     " bytes of input ", first);
  }
  return text;
}

std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) {
  GraphRun running(graph);
  running.check_inputs(inputs);
  return running.run(inputs);
}

}  // namespace tensora::jit

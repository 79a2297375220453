#include <memory>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/random.h"
#include "tensora/jit/trace_views.h"
#include "tensora/jit/tracer.h"

// Note [Tracing without data]
// The function runs on stand-ins: meta tensors that name the device of the tensor they stand for.
// Every op they meet is checked and described by its `infer`, as on a meta tensor, and becomes a
// node; nothing is computed and no memory is allocated. Captured tensors are held by reference:
// when the graph runs, it reads (and writes) what they hold then, as the function would. What is
// not an op is fixed by the trace: branches, numbers, and which tensors were captured. Random ops
// draw from a stream of the trace's own, so that tracing uses nothing of the thread's; see
// Graph::random_counters.

namespace tensora::jit {
namespace {

// Nodes whose results are not used. Ops have no side effects.
void remove_unused(Graph& graph) {
  std::vector<bool> used(graph.values.size(), false);
  const auto use = [&](const std::vector<int>& ids) {
    for (int id : ids)
      if (id >= 0) used[static_cast<size_t>(id)] = true;
  };
  use(graph.outputs);
  std::vector<GraphNode> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    GraphNode& node = graph.nodes[i];
    bool needed = node.kind == GraphNode::Kind::update;
    for (int id : node.outputs) needed |= used[static_cast<size_t>(id)];
    if (!needed) continue;
    use(node.inputs);
    kept.insert(kept.begin(), std::move(node));
  }
  graph.nodes = std::move(kept);
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i]) graph.values[i].constant = {};
}

}  // namespace

AttrsCopy::AttrsCopy(const OpBase& op, const void* attrs) {
  constexpr std::align_val_t alignment{16};
  void* memory = ::operator new(op.attrs_size, alignment);
  op.copy_attrs(memory, attrs);
  attrs_ = std::shared_ptr<void>(memory, [destroy = op.destroy_attrs](void* copy) {
    destroy(copy);
    ::operator delete(copy, std::align_val_t{16});
  });
}

namespace {

Graph traced(const Function& function, std::span<const Tensor> inputs, bool keeps_views) {
  check(!thread_state.interceptor, "jit: a function that is being traced cannot trace another");
  check(function != nullptr, "jit: there is no function to trace");
  layout_of(inputs, false);  // throws if one is undefined
  Tracer tracer(keeps_views);
  std::vector<Tensor> stand_ins;
  for (const Tensor& input : inputs) stand_ins.push_back(tracer.add_input(input));
  Generator stream(kTracedSeed);
  const PhiloxState before = current_generator().state();
  std::vector<Tensor> outputs;
  {
    const no_grad silent;
    const GeneratorScope drawing(stream);
    const InterceptorScope installed(tracer);
    outputs = function(stand_ins);
  }
  const PhiloxState after = current_generator().state();
  check(after.seed == before.seed && after.offset >= before.offset &&
            stream.state().seed == kTracedSeed,
        "jit: the function seeds a random generator (manual_seed), which cannot be traced; seed it "
        "before the call");
  Graph graph = tracer.finish(outputs);
  graph.layout = layout_of(inputs, graph.depends_on_offsets);
  graph.random_counters = stream.state().offset;
  remove_unused(graph);
  return graph;
}

}  // namespace

Graph trace(const Function& function, std::span<const Tensor> inputs) {
  return traced(function, inputs, false);
}
Graph trace_views(const Function& function, std::span<const Tensor> inputs) {
  return traced(function, inputs, true);
}

std::string to_string(const Graph& graph) {
  std::string text;
  for (const GraphNode& node : graph.nodes) {
    const auto list = [&](const std::vector<int>& ids) {
      for (size_t i = 0; i < ids.size(); ++i)
        text += ids[i] < 0 ? concat(i == 0 ? "" : ", ", "none")
                           : concat(i == 0 ? "" : ", ", "%", ids[i]);
    };
    constexpr std::string_view kNames[] = {"", "view", "write", "update"};
    list(node.outputs);
    text += concat(" = ", node.op ? node.op->name : kNames[static_cast<size_t>(node.kind)], "(");
    list(node.inputs);
    if (node.op) {
      const auto attrs = node.op->list_attrs(node.attrs.get());
      if (!attrs.empty())
        text += concat(node.inputs.empty() ? "" : ", ", tensora::to_string(attrs));
    } else if (node.kind != GraphNode::Kind::update) {
      text += concat(", sizes=", node.part.sizes, ", strides=", node.part.strides,
                     ", offset_bytes=", node.part.offset_bytes);
    }
    const Value& first = graph.value(node.outputs[0]);
    text += concat(") : ", first.dtype, " ", first.sizes, "\n");
  }
  return text;
}

}  // namespace tensora::jit

#include <unordered_map>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/thread_state.h"
#include "tensora/dispatch/tracer.h"
#include "tensora/jit/graph.h"

namespace tensora::jit {
namespace {

class GraphTracer final : public Tracer {
 public:
  int add_input(const Tensor& tensor) {
    const int id = add_value(tensor);
    graph.inputs.push_back(id);
    return id;
  }

  void record(const OpBase& op, Args inputs, std::span<const Tensor> outputs,
              const void* attrs) override {
    GraphNode node{&op, AttrsCopy(op, attrs), {}, {}};
    for (const Arg& input : inputs) node.inputs.push_back(input->defined() ? find(*input) : -1);
    for (const Tensor& output : outputs) node.outputs.push_back(add_value(output));
    if (op.pointwise) {
      Infer infer(op.name, inputs, outputs[0].device());
      op.infer(op, infer, attrs);
      node.compute_dtype = infer.compute_dtype;
    }
    graph.nodes.push_back(std::move(node));
  }

  /// The value of a tensor; one that no traced op made is a constant.
  int find(const Tensor& tensor) {
    const auto found = ids_.find(&tensor.impl());
    if (found != ids_.end()) return found->second;
    const int id = add_value(tensor);
    graph.values[static_cast<size_t>(id)].constant = tensor;
    return id;
  }

  Graph graph;

 private:
  int add_value(const Tensor& tensor) {
    const int id = static_cast<int>(graph.values.size());
    graph.values.push_back({tensor.sizes(), tensor.dtype(), tensor.device(), {}});
    // An op may hand its input through (a view of everything, say): the latest name counts.
    ids_[&tensor.impl()] = id;
    alive_.push_back(tensor);
    return id;
  }

  std::unordered_map<const TensorImpl*, int> ids_;
  std::vector<Tensor> alive_;  // an address must not be used again while we trace
};

struct Installed {
  explicit Installed(Tracer& tracer) : previous(std::exchange(thread_state.tracer, &tracer)) {}
  ~Installed() { thread_state.tracer = previous; }
  Tracer* previous;
};

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

Graph trace(const Function& function, std::span<const Tensor> inputs) {
  check(!thread_state.tracer, "jit: a function that is being traced cannot trace another");
  GraphTracer tracer;
  for (const Tensor& input : inputs) tracer.add_input(input);
  std::vector<Tensor> outputs;
  {
    const no_grad silent;
    const Installed installed(tracer);
    outputs = function(inputs);
  }
  for (const Tensor& output : outputs) tracer.graph.outputs.push_back(tracer.find(output));
  return std::move(tracer.graph);
}

std::string to_string(const Graph& graph) {
  std::string text;
  for (const GraphNode& node : graph.nodes) {
    const auto list = [&](const std::vector<int>& ids) {
      for (size_t i = 0; i < ids.size(); ++i)
        text += ids[i] < 0 ? concat(i == 0 ? "" : ", ", "none")
                           : concat(i == 0 ? "" : ", ", "%", ids[i]);
    };
    list(node.outputs);
    text += concat(" = ", node.op->name, "(");
    list(node.inputs);
    const auto attrs = node.op->list_attrs(node.attrs.get());
    if (!attrs.empty()) text += concat(", ", tensora::to_string(attrs));
    const Value& first = graph.values[static_cast<size_t>(node.outputs[0])];
    text += concat(") : ", first.dtype, " ", first.sizes, "\n");
  }
  return text;
}

}  // namespace tensora::jit

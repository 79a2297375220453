#include "tensora/jit/fusion.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include "tensora/jit/embedded.h"

namespace tensora::jit {
namespace {

std::array<std::atomic<Emitter>, kDeviceTypeCount> emitters;

// A device whose library names no emitter runs its ops one by one. One with a compiler needs the
// functor's source; the CPU runs the op's own kernel.
bool can_fuse(const OpBase& op, Device device) {
  if (device.is_cpu()) return op.has_kernel(device.type);
  return emitters[static_cast<size_t>(device.type)].load(std::memory_order_acquire) != nullptr &&
         !functor_type(op).empty();
}

/// Nodes first … last (exclusive) of a graph that run as one.
class Run {
 public:
  explicit Run(const Graph& graph) : graph_(&graph) {}

  bool empty() const { return nodes_.empty(); }
  const std::vector<int>& nodes() const { return nodes_; }

  /// Adds a node if it can share a kernel with the others.
  bool add(int index) {
    const GraphNode& node = graph_->nodes[static_cast<size_t>(index)];
    if (node.kind != GraphNode::Kind::op || !node.op->pointwise || node.outputs.size() != 1)
      return false;
    const Value& out = value(node.outputs[0]);
    // Fused code and its buffers are made for real numbers.
    if (!contains(kRealDTypes, out.dtype)) return false;
    if (!can_fuse(*node.op, out.device)) return false;
    if (!nodes_.empty() && (out.sizes != sizes_ || out.device != device_)) return false;
    std::vector<int> inputs = inputs_;
    for (int id : node.inputs) {
      if (id < 0 || !contains(kRealDTypes, value(id).dtype)) return false;
      const bool made_here = std::find(made_.begin(), made_.end(), id) != made_.end();
      if (!made_here && std::find(inputs.begin(), inputs.end(), id) == inputs.end())
        inputs.push_back(id);
    }
    if (inputs.size() > kMaxFusedInputs) return false;
    inputs_ = std::move(inputs);
    nodes_.push_back(index);
    made_.push_back(node.outputs[0]);
    sizes_ = out.sizes;
    device_ = out.device;
    return true;
  }

  Step to_step() const {
    if (nodes_.size() == 1) return {.node = nodes_[0]};
    Step step;
    Program program{.sizes = sizes_, .device = device_};
    std::vector<int> numbering = inputs_;  // position: number within the program
    numbering.insert(numbering.end(), made_.begin(), made_.end());
    for (int id : numbering) program.dtypes.push_back(value(id).dtype);
    for (int id : inputs_)
      program.host_inputs.push_back(value(id).device.is_cpu() && !device_.is_cpu());
    const auto number = [&](int id) {
      return static_cast<int>(std::find(numbering.begin(), numbering.end(), id) -
                              numbering.begin());
    };
    for (int index : nodes_) {
      const GraphNode& node = graph_->nodes[static_cast<size_t>(index)];
      Program::Instruction instruction{node.op, node.attrs, node.compute_dtype, {}};
      for (int id : node.inputs) instruction.operands.push_back(number(id));
      program.instructions.push_back(std::move(instruction));
    }
    for (int id : made_) {
      if (!needed_outside(id)) continue;
      program.outputs.push_back(number(id));
      step.outputs.push_back(id);
    }
    step.inputs = inputs_;
    step.program = std::move(program);
    return step;
  }

 private:
  const Value& value(int id) const { return graph_->value(id); }

  bool needed_outside(int id) const {
    if (std::find(graph_->outputs.begin(), graph_->outputs.end(), id) != graph_->outputs.end())
      return true;
    for (size_t n = static_cast<size_t>(nodes_.back()) + 1; n < graph_->nodes.size(); ++n) {
      const std::vector<int>& inputs = graph_->nodes[n].inputs;
      if (std::find(inputs.begin(), inputs.end(), id) != inputs.end()) return true;
    }
    return false;
  }

  const Graph* graph_;
  std::vector<int> nodes_, inputs_, made_;
  Shape sizes_;
  Device device_;
};

}  // namespace

std::string_view functor_type(const OpBase& op) {
  for (int i = 0; i < functor_name_count; ++i)
    if (op.name == functor_names[i].op) return functor_names[i].type;
  return {};
}

std::vector<Step> fuse_pointwise(const Graph& graph) {
  std::vector<Step> steps;
  Run run(graph);
  const auto flush = [&] {
    if (run.empty()) return;
    Step step = run.to_step();
    // Too many results for one kernel: the ops run one by one.
    if (step.program && step.outputs.size() > kMaxFusedOutputs)
      for (int node : run.nodes()) steps.push_back({.node = node});
    else
      steps.push_back(std::move(step));
    run = Run(graph);
  };
  for (int index = 0; index < static_cast<int>(graph.nodes.size()); ++index) {
    if (run.add(index)) continue;
    flush();
    if (!run.add(index)) steps.push_back({.node = index});
  }
  flush();
  return steps;
}

void set_emitter(DeviceType device, Emitter emitter) {
  emitters[static_cast<size_t>(device)].store(emitter, std::memory_order_release);
}

std::unique_ptr<FusedKernel> emit(const Program& program) {
  if (program.device.is_cpu()) return emit_cpu(program);
  const Emitter emitter =
      emitters[static_cast<size_t>(program.device.type)].load(std::memory_order_acquire);
  check(emitter != nullptr, "jit: there is no code generator for ", program.device);
  return emitter(program);
}

}  // namespace tensora::jit

#include <algorithm>
#include <unordered_map>

#include "tensora/onnx/import.h"
#include "tensora/onnx/node_call.h"
#include "tensora/ops.h"

// Note [Sizes on the host]
// ONNX computes sizes with the same operators as everything else: Shape, Gather, Mul, Concat, then
// Reshape. These run on small integer tensors that are never deferred: a node all of whose inputs
// are sizes, or integer constants, runs on the CPU outside of interceptors and lazy scopes, and so
// does what reads them. A program can therefore be traced and exported again, and a GPU is not
// waited for.

namespace tensora::onnx {
namespace {

constexpr int64_t kMostHostElements = 4096;

bool may_be_on_host(const Tensor& tensor) {
  const bool is_size = is_integral(tensor.dtype()) || tensor.dtype() == DType::boolean;
  return is_size && tensor.numel() <= kMostHostElements;
}

bool lists(std::string_view names, std::string_view name) {
  size_t start = 0;
  while (start <= names.size()) {
    const size_t end = std::min(names.find(' ', start), names.size());
    if (names.substr(start, end - start) == name) return true;
    start = end + 1;
  }
  return false;
}

void check_node(const NodeProto& node, const OpImport* row) {
  if (!row)
    throw NotImplementedError(
        concat("onnx: ", described(node), ": this operator cannot be imported"));
  const auto given = static_cast<int>(node.inputs.size());
  check(given >= row->least_inputs && (row->most_inputs < 0 || given <= row->most_inputs),
        "onnx: ", described(node), " has ", given, " inputs");
  for (int i = 0; i < row->least_inputs; ++i)
    check(!node.inputs[static_cast<size_t>(i)].empty(), "onnx: ", described(node), ": input ", i,
          " is missing");
  for (const AttributeProto& attribute : node.attributes)
    check(lists(row->attributes, attribute.name), "onnx: ", described(node), " has the attribute '",
          attribute.name, "', which is unknown");
}

// Going backwards, the first mention of a value is its last use.
void find_last_uses(Block& block, int slots) {
  std::vector<bool> needed(static_cast<size_t>(slots), false);
  for (int slot : block.outputs) needed[static_cast<size_t>(slot)] = true;
  for (size_t i = block.steps.size(); i-- > 0;) {
    Step& step = block.steps[i];
    for (const std::vector<int>* used : {&step.outputs, &step.inputs, &step.captured})
      for (int slot : *used)
        if (slot >= 0 && !needed[static_cast<size_t>(slot)]) {
          needed[static_cast<size_t>(slot)] = true;
          step.dying.push_back(slot);
        }
  }
}

/// Gives every value a slot, and every node a row of the table. The graphs of one program share
/// their slots.
class Compiler {
 public:
  /// The slots of a graph's values; one inside of a node sees those around it.
  struct Scope {
    const Scope* outer = nullptr;
    std::unordered_map<std::string, int> slots = {};
    std::vector<int>* captured = nullptr;  // gets the slots that are taken from outside

    int find(const std::string& name) const {
      const auto found = slots.find(name);
      if (found != slots.end()) return found->second;
      ensure(outer != nullptr, "onnx: '", name, "' has no slot");
      const int slot = outer->find(name);
      captured->push_back(slot);
      return slot;
    }
  };

  int add_slot(Scope& scope, const std::string& name) { return scope.slots[name] = slots_++; }
  int slots() const { return slots_; }

  void add_nodes(const GraphProto& graph, Scope& scope, Block& block) {
    for (const NodeProto& node : graph.nodes) {
      Step step{.node = node, .row = find_import(node.op_type)};
      check_node(node, step.row);
      for (const std::string& input : node.inputs)
        step.inputs.push_back(input.empty() ? -1 : scope.find(input));
      for (const AttributeProto& attribute : node.attributes)
        if (attribute.g)
          step.blocks.emplace_back(attribute.name, inner(*attribute.g, scope, step.captured));
      for (const std::string& output : node.outputs)
        step.outputs.push_back(output.empty() ? -1 : add_slot(scope, output));
      block.steps.push_back(std::move(step));
    }
    for (const ValueInfoProto& output : graph.outputs)
      block.outputs.push_back(scope.find(output.name));
  }

 private:
  std::shared_ptr<const Block> inner(const GraphProto& graph, const Scope& outer,
                                     std::vector<int>& captured) {
    check(graph.inputs.empty(), "onnx: a graph inside of a node has inputs");
    Scope scope{.outer = &outer, .captured = &captured};
    Block block;
    for (const auto& [name, tensor] : graph.initializers)
      block.constants.emplace_back(add_slot(scope, name), tensor);
    add_nodes(graph, scope, block);
    return std::make_shared<const Block>(std::move(block));
  }

  int slots_ = 0;
};

/// One run of a program.
class Run {
 public:
  Run(std::vector<Tensor> values, std::vector<bool> is_host, int64_t opset)
      : values_(std::move(values)), is_host_(std::move(is_host)), opset_(opset) {}

  std::vector<Tensor> block(const Block& block) {
    for (const auto& [slot, tensor] : block.constants) set(slot, tensor, may_be_on_host(tensor));
    for (const Step& step : block.steps) this->step(step);
    std::vector<Tensor> results;
    for (int slot : block.outputs) results.push_back(values_[static_cast<size_t>(slot)]);
    return results;
  }

 private:
  void set(int slot, Tensor tensor, bool on_host) {
    values_[static_cast<size_t>(slot)] = std::move(tensor);
    is_host_[static_cast<size_t>(slot)] = on_host;
  }

  void step(const Step& step) {
    std::vector<Tensor> given;
    Device device;  // of the node
    bool all_host = true;
    for (int slot : step.inputs) {
      given.push_back(slot < 0 ? Tensor() : values_[static_cast<size_t>(slot)]);
      if (slot < 0 || is_host_[static_cast<size_t>(slot)]) continue;
      all_host = false;
      if (!given.back().device().is_cpu()) device = given.back().device();
    }
    const NodeCall call(step, given, opset_, device);
    if (!step.blocks.empty()) return branch(step, call);
    const bool reads_sizes = step.row->op == "Shape" || step.row->op == "Size";
    const bool on_host = reads_sizes || all_host;
    std::vector<Tensor> results;
    {
      const AtOnce at_once(on_host);
      results = step.row->run(call);
    }
    finish(step, std::move(results), on_host);
  }

  void finish(const Step& step, std::vector<Tensor> results, bool on_host) {
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const int slot = step.outputs[i];
      if (slot < 0) continue;
      check(i < results.size() && results[i].defined(), "onnx: ", described(step.node), ": output ",
            i, " cannot be computed");
      set(slot, results[i], on_host && may_be_on_host(results[i]));
    }
    for (int slot : step.dying) values_[static_cast<size_t>(slot)] = {};
  }

  // If: reads its condition and runs one of its graphs.
  void branch(const Step& step, const NodeCall& call) {
    const std::string_view wanted = call.number(0) != 0 ? "then_branch" : "else_branch";
    for (const auto& [name, graph] : step.blocks)
      if (name == wanted) {
        std::vector<Tensor> results = block(*graph);
        // Where they were computed is not known any more.
        return finish(step, std::move(results), false);
      }
    call.refuse(concat("there is no ", wanted));
  }

  std::vector<Tensor> values_;
  std::vector<bool> is_host_;
  int64_t opset_;
};

}  // namespace

Program::Program(const ModelProto& model) : opset_(model.opset_version) {
  check_model(model);
  Compiler compiler;
  Compiler::Scope scope;
  Block block;
  for (const auto& [name, tensor] : model.graph.initializers) {
    weights_.insert(name, tensor);
    is_host_.push_back(may_be_on_host(tensor));
    compiler.add_slot(scope, name);
  }
  for (const ValueInfoProto& input : model.graph.inputs)
    if (!scope.slots.contains(input.name)) {
      inputs_.push_back(input);
      compiler.add_slot(scope, input.name);
    }
  outputs_ = model.graph.outputs;
  compiler.add_nodes(model.graph, scope, block);
  find_last_uses(block, compiler.slots());
  slots_ = static_cast<size_t>(compiler.slots());
  block_ = std::make_shared<const Block>(std::move(block));
}

void Program::to(Device device) {
  StateDict moved;
  for (const auto& [name, tensor] : weights_)
    moved.insert(name, is_floating_point(tensor.dtype()) ? tensora::to(tensor, device) : tensor);
  weights_ = std::move(moved);
}

std::vector<Tensor> Program::operator()(std::span<const Tensor> inputs) const {
  std::vector<Tensor> weights;
  for (const auto& [name, tensor] : weights_) weights.push_back(tensor);
  return run(inputs, weights);
}

void Program::check_inputs(std::span<const Tensor> inputs) const {
  check(inputs.size() == inputs_.size(), "onnx: the graph has ", inputs_.size(), " inputs, got ",
        inputs.size());
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueInfoProto& expected = inputs_[i];
    check(inputs[i].defined(), "onnx: input '", expected.name, "' is an undefined tensor");
    check_as<TypeError>(inputs[i].dtype() == expected.dtype, "onnx: input '", expected.name,
                        "' must be ", expected.dtype, ", got ", inputs[i].dtype());
    if (!expected.sizes) continue;
    const Shape& sizes = inputs[i].sizes();
    check(static_cast<size_t>(sizes.size()) == expected.sizes->size(), "onnx: input '",
          expected.name, "' must have ", expected.sizes->size(), " dims, got shape ", sizes);
    for (int d = 0; d < sizes.size(); ++d) {
      const Dimension& dimension = (*expected.sizes)[static_cast<size_t>(d)];
      check(!dimension.size || *dimension.size == sizes[d], "onnx: input '", expected.name,
            "' must have size ", dimension.size.value_or(0), " along dim ", d, ", got shape ",
            sizes);
      if (dimension.size || dimension.symbol.empty()) continue;
      const auto [known, is_new] = symbols.emplace(dimension.symbol, sizes[d]);
      check(is_new || known->second == sizes[d], "onnx: the inputs have different sizes for '",
            dimension.symbol, "': ", known->second, " and ", sizes[d]);
    }
  }
}

std::vector<Tensor> Program::run(std::span<const Tensor> inputs,
                                 std::span<const Tensor> weights) const {
  check_inputs(inputs);
  check(weights.size() == weights_.size(), "onnx: the graph has ", weights_.size(),
        " weights, got ", weights.size());
  std::vector<Tensor> values(weights.begin(), weights.end());
  values.insert(values.end(), inputs.begin(), inputs.end());
  values.resize(slots_);
  std::vector<bool> is_host = is_host_;
  is_host.resize(slots_, false);
  return Run(std::move(values), std::move(is_host), opset_).block(*block_);
}

Program load_onnx(const std::string& path) { return Program(read_model(path)); }

}  // namespace tensora::onnx

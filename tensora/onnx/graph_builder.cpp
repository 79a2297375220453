#include "tensora/onnx/graph_builder.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "tensora/io/mapped_file.h"

namespace tensora::onnx {
namespace {

constexpr size_t kSmallConstant = 256;  // bytes

// Handles to one tensor may be several, as those of a module and of its state dict: equal are those
// that lie in the same place in the same way.
std::string place_of(const Tensor& tensor) {
  return concat(reinterpret_cast<uintptr_t>(tensor.impl().storage.get()), " ",
                tensor.storage_offset(), tensor.sizes(), tensor.strides(), tensor.dtype());
}

}  // namespace

GraphBuilder::GraphBuilder(int64_t opset_version, const StateDict& parameters)
    : opset_version_(opset_version) {
  for (const auto& [name, tensor] : parameters) {
    check(tensor.defined(), "onnx: the parameter '", name, "' is an undefined tensor");
    parameter_names_.emplace(place_of(tensor), name);
    taken_.insert(name);
  }
}

std::string GraphBuilder::fresh(std::string_view hint) {
  std::string name;
  do name = concat(hint, "_", ++count_);
  while (!taken_.insert(name).second);
  return name;
}

void GraphBuilder::reserve(const std::string& name, std::string_view what) {
  check(!name.empty(), "onnx: ", what, " has an empty name");
  check(taken_.insert(name).second, "onnx: the name '", name, "' of ", what,
        " is that of another input, output or parameter");
}

Names GraphBuilder::add(std::string_view op_type, Names inputs, Attributes attributes,
                        size_t outputs, std::string_view hint) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  Names results;
  for (size_t i = 0; i < outputs; ++i) results.push_back(fresh(hint));
  for (const std::string& name : results) producers_[name] = graph.nodes.size();
  NodeProto node;
  node.op_type = op_type;
  node.name = concat(op_type, "_", count_);
  node.inputs = std::move(inputs);
  node.outputs = results;
  node.attributes = std::move(attributes);
  graph.nodes.push_back(std::move(node));
  sources.push_back(current_source);
  return results;
}

std::string GraphBuilder::constant(const Tensor& tensor) {
  const std::string place = place_of(tensor);
  const auto known = captured_.find(place);
  if (known != captured_.end()) return known->second;
  const auto parameter = parameter_names_.find(place);
  const bool named = parameter != parameter_names_.end();
  std::string name = named ? parameter->second : fresh("constant");
  element_type(tensor.dtype());  // throws for dtypes that ONNX does not have
  check(!tensor.is_meta(), "onnx: a captured tensor of shape ", tensor.sizes(),
        " is on the meta device and has no contents");
  graph.initializers.emplace_back(name, tensor.detach());
  captured_[place] = name;
  kept_.push_back(tensor);
  if (!named) plain_[name] = tensor;
  values[name] = {tensor.dtype(), tensor.sizes()};
  return name;
}

std::string GraphBuilder::size_constant(const Tensor& tensor, std::string_view why) {
  std::string name = constant(tensor);
  reasons[name] = concat(why, current_source.empty() ? "" : " of op '", current_source,
                         current_source.empty() ? "" : "'");
  return name;
}

const NodeProto* GraphBuilder::producer(const std::string& name) const {
  const auto found = producers_.find(name);
  return found == producers_.end() ? nullptr : &graph.nodes[found->second];
}

const Tensor* GraphBuilder::plain_constant(const std::string& name) const {
  const auto found = plain_.find(name);
  return found == plain_.end() ? nullptr : &found->second;
}

void simplify(GraphProto& graph) {
  // Equal small constants become the first of them.
  std::map<std::string, std::string> first;
  std::unordered_map<std::string, std::string> renamed;
  for (const auto& [name, tensor] : graph.initializers) {
    if (tensor.nbytes() > kSmallConstant || name.rfind("constant_", 0) != 0) continue;
    const Tensor plain = io::writable_form(tensor, name);
    const io::ConstBytes bytes = io::contents(plain);
    const std::string key =
        concat(tensor.dtype(), tensor.sizes(),
               std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    const auto [at, is_new] = first.emplace(key, name);
    if (!is_new) renamed[name] = at->second;
  }
  std::set<std::string> needed;
  for (const ValueInfoProto& output : graph.outputs) needed.insert(output.name);
  std::vector<NodeProto> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    NodeProto& node = graph.nodes[i];
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](const std::string& name) { return needed.contains(name); });
    if (!used) continue;
    for (std::string& input : node.inputs) {
      const auto other = renamed.find(input);
      if (other != renamed.end()) input = other->second;
      needed.insert(input);
    }
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
  std::erase_if(graph.initializers,
                [&](const auto& entry) { return !needed.contains(entry.first); });
}

}  // namespace tensora::onnx

#include "tensora/onnx/proto.h"

#include <array>
#include <set>

namespace tensora::onnx {
namespace {

struct ElementType {
  DType dtype;
  int32_t number;
};
// ONNX's TensorProto.DataType.
constexpr std::array<ElementType, 16> kElementTypes = {{
    {DType::float32, 1},
    {DType::uint8, 2},
    {DType::int8, 3},
    {DType::uint16, 4},
    {DType::int16, 5},
    {DType::int32, 6},
    {DType::int64, 7},
    {DType::boolean, 9},
    {DType::float16, 10},
    {DType::float64, 11},
    {DType::uint32, 12},
    {DType::uint64, 13},
    {DType::complex64, 14},
    {DType::complex128, 15},
    {DType::bfloat16, 16},
    {DType::float8_e4m3fn, 17},
}};

AttributeProto named(std::string name, AttributeProto::Type type) {
  AttributeProto result;
  result.name = std::move(name);
  result.type = type;
  return result;
}

}  // namespace

int32_t element_type(DType dtype) {
  for (const ElementType& known : kElementTypes)
    if (known.dtype == dtype) return known.number;
  fail("onnx: ", dtype, " tensors cannot be written");
}

DType dtype_of_element(int64_t type, std::string_view what) {
  for (const ElementType& known : kElementTypes)
    if (known.number == type) return known.dtype;
  fail(what, " has the element type ", type,
       type == 8 ? " (strings), which tensors cannot hold" : ", which is unknown");
}

AttributeProto AttributeProto::of(std::string name, int64_t value) {
  AttributeProto result = named(std::move(name), Type::integer);
  result.i = value;
  return result;
}
AttributeProto AttributeProto::of(std::string name, double value) {
  AttributeProto result = named(std::move(name), Type::floating);
  result.f = static_cast<float>(value);
  return result;
}
AttributeProto AttributeProto::of(std::string name, std::string value) {
  AttributeProto result = named(std::move(name), Type::text);
  result.s = std::move(value);
  return result;
}
AttributeProto AttributeProto::of(std::string name, std::vector<int64_t> values) {
  AttributeProto result = named(std::move(name), Type::ints);
  result.ints = std::move(values);
  return result;
}
AttributeProto AttributeProto::of(std::string name, std::vector<std::string> values) {
  AttributeProto result = named(std::move(name), Type::texts);
  result.strings = std::move(values);
  return result;
}
AttributeProto AttributeProto::of(std::string name, Tensor value) {
  AttributeProto result = named(std::move(name), Type::tensor);
  result.t = std::move(value);
  return result;
}

bool operator==(const AttributeProto& a, const AttributeProto& b) {
  return a.name == b.name && a.type == b.type && a.f == b.f && a.i == b.i && a.s == b.s &&
         a.g == b.g && a.t.defined() == b.t.defined() && (!a.t.defined() || a.t.is_same(b.t)) &&
         a.floats == b.floats && a.ints == b.ints && a.strings == b.strings;
}

const AttributeProto* NodeProto::find(std::string_view attribute) const {
  for (const AttributeProto& known : attributes)
    if (known.name == attribute) return &known;
  return nullptr;
}

namespace {

/// The names that a graph defines; one inside of a node sees those around it, too.
class Scope {
 public:
  explicit Scope(const Scope* outer) : outer_(outer) {}

  bool contains(std::string_view name) const {
    return names_.contains(name) || (outer_ && outer_->contains(name));
  }
  void define(std::string_view name, std::string_view by) {
    check(!name.empty(), by, " has no name");
    check(!contains(name), "the name '", name, "' is defined twice, the second time by ", by);
    names_.insert(name);
  }

 private:
  const Scope* outer_;
  std::set<std::string_view> names_;
};

void check_graph(const GraphProto& graph, const Scope* outer);

void check_node(const NodeProto& node, Scope& scope) {
  const std::string by = concat("the node '", node.name, "' (", node.op_type, ")");
  check(node.domain.empty() || node.domain == "ai.onnx", by, " belongs to the domain '",
        node.domain, "'; only ONNX's own operators are known");
  for (const std::string& input : node.inputs)
    check(input.empty() || scope.contains(input), by, " uses '", input,
          "', which nothing before it defines");
  std::set<std::string_view> attributes;
  for (const AttributeProto& attribute : node.attributes) {
    check(attributes.insert(attribute.name).second, by, " has the attribute '", attribute.name,
          "' twice");
    if (attribute.g) check_graph(*attribute.g, &scope);
  }
  check(!node.outputs.empty(), by, " has no outputs");
  for (const std::string& output : node.outputs)
    if (!output.empty()) scope.define(output, by);
}

void check_graph(const GraphProto& graph, const Scope* outer) {
  Scope scope(outer);
  std::set<std::string_view> constants;
  for (const auto& [name, tensor] : graph.initializers) {
    scope.define(name, "an initializer");
    constants.insert(name);
  }
  // Older files list their initializers among the inputs, too.
  for (const ValueInfoProto& input : graph.inputs)
    if (!constants.contains(input.name)) scope.define(input.name, "an input");
  for (const NodeProto& node : graph.nodes) check_node(node, scope);
  check(!graph.outputs.empty(), "the graph has no outputs");
  for (const ValueInfoProto& output : graph.outputs)
    check(scope.contains(output.name), "the output '", output.name, "' is not defined");
}

}  // namespace

void check_model(const ModelProto& model) { check_graph(model.graph, nullptr); }

}  // namespace tensora::onnx

#include "tensora/onnx/op_call.h"

#include <algorithm>

#include "tensora/base/error_kinds.h"
#include "tensora/ops.h"

namespace tensora::onnx {

Expr operator+(const Expr& a, const Expr& b) { return a.call->emit("Add", {a, b}); }
Expr operator-(const Expr& a, const Expr& b) { return a.call->emit("Sub", {a, b}); }
Expr operator*(const Expr& a, const Expr& b) { return a.call->emit("Mul", {a, b}); }
Expr operator/(const Expr& a, const Expr& b) { return a.call->emit("Div", {a, b}); }

OpCall::OpCall(GraphBuilder& builder, const jit::Graph& graph, const jit::GraphNode& node,
               Names input_names)
    : builder_(builder), graph_(graph), node_(node), input_names_(std::move(input_names)) {
  attrs_ = node.op->list_attrs(node.attrs.get());
}

const AttrValue& OpCall::attr(std::string_view name) const {
  for (const auto& [known, value] : attrs_)
    if (known == name) return value;
  fail_internal("onnx: op '", op(), "' has no attribute '", name, "'");
}

double OpCall::number(std::string_view name) const {
  const AttrValue& value = attr(name);
  return value.kind == AttrValue::Kind::floating ? value.floating
                                                 : static_cast<double>(value.integer);
}

std::vector<int64_t> OpCall::list(std::string_view name, int count) const {
  std::vector<int64_t> values = list(name);
  if (values.size() == 1) values.resize(static_cast<size_t>(count), values[0]);
  return values;
}

int64_t OpCall::dim(std::string_view name, int rank) const {
  return wrap_dim(integer(name), rank, op());
}

std::vector<int64_t> OpCall::dims(std::string_view name, int rank) const {
  std::vector<int64_t> result;
  for (int64_t d : list(name)) result.push_back(wrap_dim(d, rank, op()));
  if (result.empty())
    for (int64_t d = 0; d < rank; ++d) result.push_back(d);
  return result;
}

DType OpCall::dtype_or(std::string_view name, DType otherwise) const {
  const AttrValue& value = attr(name);
  return value.kind == AttrValue::Kind::none ? otherwise : parse_dtype(value.text);
}

Expr OpCall::emit(std::string_view op_type, const Exprs& inputs, Attributes attributes) {
  return emit_list(op_type, inputs, std::move(attributes), 1)[0];
}

Exprs OpCall::emit_list(std::string_view op_type, const Exprs& inputs, Attributes attributes,
                        size_t outputs) {
  Names names;
  for (const Expr& input : inputs) names.push_back(input.name);
  Exprs result;
  for (std::string& name :
       builder_.add(op_type, std::move(names), std::move(attributes), outputs, op()))
    result.push_back({this, std::move(name)});
  return result;
}

Expr OpCall::cast(const Expr& x, DType from, DType to) {
  if (from == to) return x;
  if (const Tensor* constant = builder_.plain_constant(x.name); constant && constant->dim() == 0)
    return {this, builder_.constant(tensora::to(*constant, to))};
  // ONNX leaves open what a conversion to bool makes of NaN and of fractions.
  if (to == DType::boolean) return emit("Not", {emit("Equal", {x, constant(0, from)})});
  return emit("Cast", {x}, {AttributeProto::of("to", int64_t{element_type(to)})});
}

Expr OpCall::ints(const std::vector<int64_t>& values, std::string_view why) {
  return {this, builder_.size_constant(tensora::tensor(values, {.dtype = kInt64}), why)};
}
Expr OpCall::index(int64_t value, std::string_view why) {
  return {this, builder_.size_constant(full({}, value, {.dtype = kInt64}), why)};
}
Expr OpCall::constant(double value, DType dtype) {
  return tensor(full({}, value, {.dtype = dtype}));
}
Expr OpCall::tensor(const Tensor& value) { return {this, builder_.constant(value)}; }

Expr OpCall::reshape(const Expr& x, const Shape& sizes) {
  // Without allowzero, a size of 0 stands for the input's size.
  Attributes attributes;
  if (sizes.contains(0)) attributes.push_back(AttributeProto::of("allowzero", int64_t{1}));
  return emit("Reshape", {x, ints(sizes.vec(), "the shape")}, std::move(attributes));
}

void OpCall::refuse(std::string_view reason) const {
  const std::string& called = builder_.current_source;
  const bool is_part = !called.empty() && called != op();
  throw NotImplementedError(concat(
      "onnx: op '", is_part ? std::string_view(called) : op(),
      "' cannot be exported: ", is_part ? concat("of its part '", op(), "': ") : "", reason));
}

namespace {

const std::vector<OpExport>& table() {
  static const std::vector<OpExport> all = [] {
    std::vector<OpExport> rows;
    for (const auto part : {pointwise_exports(), activation_exports(), shape_exports(),
                            reduce_exports(), index_exports(), matrix_exports(), image_exports()})
      rows.insert(rows.end(), part.begin(), part.end());
    std::sort(rows.begin(), rows.end(),
              [](const OpExport& a, const OpExport& b) { return a.op < b.op; });
    return rows;
  }();
  return all;
}

}  // namespace

const OpExport* find_export(std::string_view op) {
  const auto& rows = table();
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), op,
                       [](const OpExport& row, std::string_view name) { return row.op < name; });
  return found != rows.end() && found->op == op ? &*found : nullptr;
}

std::vector<ExportedOp> exported_ops() {
  std::vector<ExportedOp> result;
  for (const OpExport& row : table()) result.push_back({row.op, row.onnx});
  return result;
}

}  // namespace tensora::onnx

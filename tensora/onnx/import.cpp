#include <algorithm>

#include "tensora/onnx/import.h"
#include "tensora/onnx/node_call.h"
#include "tensora/ops.h"

namespace tensora::onnx {
namespace {

using Type = AttributeProto::Type;

template <class T>
const T& checked(const AttributeProto& attribute, Type type, const T& value, std::string_view op,
                 std::string_view what) {
  check(attribute.type == type, "onnx: ", op, ": the attribute '", attribute.name, "' must be ",
        what);
  return value;
}

}  // namespace

std::string described(const NodeProto& node) {
  return node.name.empty() ? concat("a node ", node.op_type)
                           : concat("the node '", node.name, "' (", node.op_type, ")");
}

// ---- NodeCall ----------------------------------------------------------------------------------

const Tensor& NodeCall::given(size_t i) const {
  check(has(i), "onnx: ", op(), ": input ", i, " is missing");
  return inputs_[i];
}

Tensor NodeCall::in(size_t i) const {
  const Tensor& x = given(i);
  return x.device() == device_ ? x : to(x, device_);
}

std::vector<int64_t> NodeCall::ints(size_t i) const {
  const Tensor& x = given(i);
  expect(is_integral(x.dtype()) && x.dim() <= 1, "input ", i, " must be a list of integers, got ",
         x.dtype(), " of shape ", x.sizes());
  const AtOnce at_once(true);
  const Tensor values = to(x.detach().cpu(), kInt64).contiguous();
  const int64_t* data = values.data_ptr<int64_t>();
  return {data, data + values.numel()};
}
int64_t NodeCall::integer(size_t i) const {
  const std::vector<int64_t> values = ints(i);
  expect(values.size() == 1, "input ", i, " must be one integer, got ", values.size());
  return values[0];
}
std::vector<double> NodeCall::numbers(size_t i) const {
  const AtOnce at_once(true);
  const Tensor values = to(given(i).detach().cpu(), kFloat64).contiguous();
  const double* data = values.data_ptr<double>();
  return {data, data + values.numel()};
}
double NodeCall::number(size_t i) const {
  const std::vector<double> values = numbers(i);
  expect(values.size() == 1, "input ", i, " must be one number, got ", values.size());
  return values[0];
}

int64_t NodeCall::integer(std::string_view name, int64_t otherwise) const {
  const AttributeProto* found = attr(name);
  return found ? checked(*found, Type::integer, found->i, op(), "an integer") : otherwise;
}
double NodeCall::number(std::string_view name, double otherwise) const {
  const AttributeProto* found = attr(name);
  if (!found) return otherwise;
  return static_cast<double>(checked(*found, Type::floating, found->f, op(), "a number"));
}
std::string NodeCall::text(std::string_view name, std::string_view otherwise) const {
  const AttributeProto* found = attr(name);
  return found ? checked(*found, Type::text, found->s, op(), "a text") : std::string(otherwise);
}
std::vector<int64_t> NodeCall::list(std::string_view name, std::vector<int64_t> otherwise) const {
  const AttributeProto* found = attr(name);
  return found ? checked(*found, Type::ints, found->ints, op(), "a list of integers") : otherwise;
}
std::vector<double> NodeCall::numbers(std::string_view name) const {
  const AttributeProto* found = attr(name);
  if (!found) return {};
  const auto& values = checked(*found, Type::floats, found->floats, op(), "a list of numbers");
  return {values.begin(), values.end()};
}
std::vector<std::string> NodeCall::texts(std::string_view name) const {
  const AttributeProto* found = attr(name);
  if (!found) return {};
  return checked(*found, Type::texts, found->strings, op(), "a list of texts");
}
std::vector<int64_t> NodeCall::axes(std::string_view name, size_t i) const {
  return has(i) ? ints(i) : list(name);
}
void NodeCall::refuse(std::string_view reason) const {
  throw NotImplementedError(concat("onnx: ", described(step_.node), ": ", reason));
}

// ---- the table ---------------------------------------------------------------------------------

namespace {

const std::vector<OpImport>& table() {
  static const std::vector<OpImport> all = [] {
    std::vector<OpImport> rows;
    for (const auto part : {pointwise_imports(), shape_imports(), index_imports(), reduce_imports(),
                            matrix_imports(), image_imports()})
      rows.insert(rows.end(), part.begin(), part.end());
    std::sort(rows.begin(), rows.end(),
              [](const OpImport& a, const OpImport& b) { return a.op < b.op; });
    return rows;
  }();
  return all;
}

}  // namespace

const OpImport* find_import(std::string_view op) {
  const auto& rows = table();
  const auto found =
      std::lower_bound(rows.begin(), rows.end(), op,
                       [](const OpImport& row, std::string_view name) { return row.op < name; });
  return found != rows.end() && found->op == op ? &*found : nullptr;
}

std::vector<std::string_view> imported_ops() {
  std::vector<std::string_view> names;
  for (const OpImport& row : table()) names.push_back(row.op);
  return names;
}

}  // namespace tensora::onnx

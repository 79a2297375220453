#pragma once

// Internal header: one call of an op while it is translated to ONNX's operators.

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensora/jit/graph.h"
#include "tensora/onnx/export.h"
#include "tensora/onnx/graph_builder.h"

namespace tensora::onnx {

class OpCall;

/// A value of the graph that is being written, in expressions: `x * x + call.number(1)`.
struct Expr {
  OpCall* call = nullptr;
  std::string name;
};
using Exprs = std::vector<Expr>;

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);

/// The inputs, attributes and results of a call, and the operators that are written for it.
class OpCall {
 public:
  OpCall(GraphBuilder& builder, const jit::Graph& graph, const jit::GraphNode& node,
         Names input_names);

  std::string_view op() const { return node_.op->name; }
  bool random() const { return node_.random; }
  size_t inputs() const { return input_names_.size(); }
  /// Whether an optional input is given.
  bool has(size_t i) const { return i < inputs() && !input_names_[i].empty(); }
  const Shape& sizes(size_t i) const { return input_value(i).sizes; }
  DType dtype(size_t i) const { return input_value(i).dtype; }
  int rank(size_t i) const { return sizes(i).size(); }
  /// An input, cast to `dtype` if it has another one.
  Expr in(size_t i) { return {this, input_names_[i]}; }
  Expr in(size_t i, DType as) { return cast(in(i), dtype(i), as); }
  /// An operand of a pointwise op, in the dtype in which the operands meet.
  Expr operand(size_t i) { return in(i, compute_dtype()); }
  DType compute_dtype() const { return node_.compute_dtype; }

  size_t results() const { return node_.outputs.size(); }
  const Shape& result_sizes(size_t i = 0) const { return result(i).sizes; }
  DType result_dtype(size_t i = 0) const { return result(i).dtype; }

  /// Attributes by name; one that the op does not have is our mistake.
  const AttrValue& attr(std::string_view name) const;
  bool given(std::string_view name) const { return attr(name).kind != AttrValue::Kind::none; }
  int64_t integer(std::string_view name) const { return attr(name).integer; }
  bool flag(std::string_view name) const { return attr(name).integer != 0; }
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const { return attr(name).text; }
  const std::vector<int64_t>& list(std::string_view name) const { return attr(name).ints; }
  /// A list of which a single number stands for `count` equal ones.
  std::vector<int64_t> list(std::string_view name, int count) const;
  /// A dim that counts from the front.
  int64_t dim(std::string_view name, int rank) const;
  /// Reduced dims, all of them where none is named.
  std::vector<int64_t> dims(std::string_view name, int rank) const;
  /// The dtype attribute, or another one where it is not given.
  DType dtype_or(std::string_view name, DType otherwise) const;

  /// The part of the parent that a view node takes.
  const jit::Part& part() const { return node_.part; }
  const Strides& strides(size_t i) const { return input_value(i).strides; }

  Expr emit(std::string_view op_type, const Exprs& inputs, Attributes attributes = {});
  Exprs emit_list(std::string_view op_type, const Exprs& inputs, Attributes attributes,
                  size_t outputs);
  Expr none() { return {this, ""}; }
  Expr cast(const Expr& x, DType from, DType to);
  /// A 1-D constant of int64, which may depend on dynamic sizes.
  Expr ints(const std::vector<int64_t>& values, std::string_view why = "a size");
  /// A 0-D constant of int64, which may depend on dynamic sizes.
  Expr index(int64_t value, std::string_view why = "a position");
  /// A 0-D constant in the dtype of the operands, or in another.
  Expr constant(double value) { return constant(value, compute_dtype()); }
  Expr constant(double value, DType dtype);
  Expr tensor(const Tensor& value);
  Expr reshape(const Expr& x, const Shape& sizes);

  /// The node that computes a value; null for inputs and constants.
  const NodeProto* producer(const Expr& x) const { return builder_.producer(x.name); }
  int64_t opset_version() const { return builder_.opset_version(); }
  [[noreturn]] void refuse(std::string_view reason) const;

 private:
  const jit::Value& input_value(size_t i) const { return graph_.value(node_.inputs[i]); }
  const jit::Value& result(size_t i) const { return graph_.value(node_.outputs[i]); }

  GraphBuilder& builder_;
  const jit::Graph& graph_;
  const jit::GraphNode& node_;
  Names input_names_;
  std::vector<std::pair<std::string_view, AttrValue>> attrs_;
};

/// A row of the table: how calls of an op are written.
struct OpExport {
  std::string_view op;
  std::string_view onnx;  // the operators that it becomes
  /// The results, of which those that ONNX does not compute are left out or have no name. Without
  /// a function, `onnx` is one operator that takes all operands in the dtype in which they meet.
  Exprs (*write)(OpCall&) = nullptr;
};
/// Null for ops that are not in the table.
const OpExport* find_export(std::string_view op);

// The parts of the table.
std::span<const OpExport> pointwise_exports();
std::span<const OpExport> activation_exports();
std::span<const OpExport> shape_exports();
std::span<const OpExport> reduce_exports();
std::span<const OpExport> index_exports();
std::span<const OpExport> matrix_exports();
std::span<const OpExport> image_exports();

}  // namespace tensora::onnx

#pragma once

// Internal header: a graph of ONNX's operators while it is being written.

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensora/io/state.h"
#include "tensora/onnx/proto.h"

namespace tensora::onnx {

using Attributes = std::vector<AttributeProto>;
using Names = std::vector<std::string>;

/// What the trace knows of a value.
struct TracedValue {
  DType dtype;
  Shape sizes;
};

/// Adds nodes and constants to a graph and gives them names, which depend on the order alone: two
/// traces that take the same steps get the same names.
class GraphBuilder {
 public:
  GraphBuilder(int64_t opset_version, const StateDict& parameters);

  /// Adds a node; its outputs are named after `hint`.
  Names add(std::string_view op_type, Names inputs, Attributes attributes, size_t outputs,
            std::string_view hint);
  /// A tensor that the function captured or that a translation needs. A captured tensor is one
  /// initializer however often it is used.
  std::string constant(const Tensor& tensor);
  /// A constant that may depend on dynamic sizes; `why` says what it holds, for the error if no
  /// formula for it is found.
  std::string size_constant(const Tensor& tensor, std::string_view why);
  /// An unused name.
  std::string fresh(std::string_view hint);
  /// Reserves a name for an input.
  void reserve(const std::string& name, std::string_view what);

  /// The node that computes a value; null for inputs and constants.
  const NodeProto* producer(const std::string& name) const;
  /// A constant that is not one of the parameters by name; null for everything else.
  const Tensor* plain_constant(const std::string& name) const;

  int64_t opset_version() const { return opset_version_; }

  GraphProto graph;
  std::unordered_map<std::string, TracedValue> values;
  std::unordered_map<std::string, std::string> reasons;  // of size constants
  /// The op of the program that each node belongs to, for errors.
  std::vector<std::string> sources;
  std::string current_source;

 private:
  int64_t opset_version_;
  std::unordered_map<std::string, std::string> captured_;  // by where they lie
  std::unordered_map<std::string, Tensor> plain_;
  std::unordered_map<std::string, size_t> producers_;
  std::unordered_map<std::string, std::string> parameter_names_;
  std::set<std::string> taken_;
  std::vector<Tensor> kept_;  // so that no address is reused
  size_t count_ = 0;
};

/// Leaves out nodes and constants that no output needs, and all but one of equal small constants.
void simplify(GraphProto& graph);

}  // namespace tensora::onnx

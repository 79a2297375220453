#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/io/state.h"
#include "tensora/onnx/proto.h"

// Import of ONNX files: docs/onnx.md.

namespace tensora::onnx {

struct Block;

/// The graph of an ONNX file as a function of tensors. It runs node by node, with the library's
/// ops, so that autograd, devices and interceptors (jit::trace, lazy scopes) work as everywhere.
class Program {
 public:
  /// Checks every node: its operator, the number of its inputs and outputs, its attributes. Throws,
  /// naming the node, before anything runs.
  explicit Program(const ModelProto& model);

  /// What the graph declares; a file may leave sizes open.
  const std::vector<ValueInfoProto>& inputs() const { return inputs_; }
  const std::vector<ValueInfoProto>& outputs() const { return outputs_; }
  /// The file's constants by name. Those of floating dtypes are what training would change.
  const StateDict& weights() const { return weights_; }
  /// Moves the weights of floating dtypes; the others, most of which are sizes and positions, stay
  /// on the CPU until a node needs them elsewhere.
  void to(Device device);

  std::vector<Tensor> operator()(std::span<const Tensor> inputs) const;
  /// The same with other tensors in place of the weights, in their order.
  std::vector<Tensor> run(std::span<const Tensor> inputs, std::span<const Tensor> weights) const;

 private:
  void check_inputs(std::span<const Tensor> inputs) const;

  int64_t opset_;
  std::vector<ValueInfoProto> inputs_, outputs_;
  StateDict weights_;
  std::vector<bool> is_host_;  // of the weights: see Note [Sizes on the host]
  std::shared_ptr<const Block> block_;
  size_t slots_ = 0;
};

/// Reads a file whole, checks it (read_model) and makes its graph ready to run.
Program load_onnx(const std::string& path);

/// The operators that can be imported, sorted.
std::vector<std::string_view> imported_ops();

}  // namespace tensora::onnx

#pragma once

// Internal header: one node of an imported graph while it runs.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/base/error_kinds.h"
#include "tensora/core/thread_state.h"
#include "tensora/onnx/proto.h"

namespace tensora::onnx {

/// Suspends the interceptors and the lazy scope of this thread, if `wanted`. See Note [Sizes on the
/// host].
class AtOnce {
 public:
  explicit AtOnce(bool wanted)
      : interceptor_(thread_state.interceptor), deferral_(thread_state.deferral) {
    if (!wanted) return;
    thread_state.interceptor = nullptr;
    thread_state.deferral = nullptr;
  }
  ~AtOnce() {
    thread_state.interceptor = interceptor_;
    thread_state.deferral = deferral_;
  }
  AtOnce(const AtOnce&) = delete;
  AtOnce& operator=(const AtOnce&) = delete;

 private:
  decltype(thread_state.interceptor) interceptor_;
  decltype(thread_state.deferral) deferral_;
};

/// "the node 'x' (Add)"
std::string described(const NodeProto& node);

class NodeCall;
using Results = std::vector<Tensor>;

/// How an operator is run, and what its nodes may look like.
struct OpImport {
  std::string_view op;
  int least_inputs = 0, most_inputs = 0;  // most: -1: any number
  std::string_view attributes;            // all that are known, separated by spaces
  Results (*run)(const NodeCall&) = nullptr;
};
/// Null for operators that cannot be imported.
const OpImport* find_import(std::string_view op);

// The parts of the table.
std::span<const OpImport> pointwise_imports();
std::span<const OpImport> shape_imports();
std::span<const OpImport> index_imports();
std::span<const OpImport> reduce_imports();
std::span<const OpImport> matrix_imports();
std::span<const OpImport> image_imports();

struct Block;

/// A node of a program.
struct Step {
  NodeProto node;
  const OpImport* row = nullptr;
  std::vector<int> inputs = {};    // slots; -1: not given
  std::vector<int> outputs = {};   // slots; -1: it has no name
  std::vector<int> dying = {};     // slots that no later step reads
  std::vector<int> captured = {};  // slots that the blocks read, of values outside of them
  // The graphs among the attributes.
  std::vector<std::pair<std::string, std::shared_ptr<const Block>>> blocks = {};
};

/// The steps of a graph, in a program or in one of its nodes.
struct Block {
  std::vector<std::pair<int, Tensor>> constants = {};  // with their slots
  std::vector<Step> steps = {};
  std::vector<int> outputs = {};  // slots
};

/// The inputs and attributes of a node.
class NodeCall {
 public:
  /// Runs on `device`, to which constants are brought.
  NodeCall(const Step& step, std::span<const Tensor> inputs, int64_t opset, Device device)
      : step_(step), inputs_(inputs), opset_(opset), device_(device) {}

  std::string_view op() const { return step_.row->op; }
  int64_t opset() const { return opset_; }
  size_t inputs() const { return inputs_.size(); }
  size_t outputs() const { return step_.outputs.size(); }
  /// Whether output `i` is used by anything.
  bool wants(size_t i) const { return i < outputs() && step_.outputs[i] >= 0; }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].defined(); }
  Tensor in(size_t i) const;
  Tensor operator[](size_t i) const { return in(i); }
  Device device() const { return device_; }
  /// An optional input; undefined if it is not given.
  Tensor optional(size_t i) const { return has(i) ? in(i) : Tensor(); }
  /// The numbers in an input, which the host needs: sizes, axes, bounds.
  std::vector<int64_t> ints(size_t i) const;
  std::vector<double> numbers(size_t i) const;
  int64_t integer(size_t i) const;
  double number(size_t i) const;

  const AttributeProto* attr(std::string_view name) const { return step_.node.find(name); }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> list(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> numbers(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  /// Axes: attribute `name` in older versions, input `i` in newer ones; nothing if neither is
  /// given.
  std::vector<int64_t> axes(std::string_view name, size_t i) const;

  [[noreturn]] void refuse(std::string_view reason) const;
  template <class... Parts>
  void expect(bool ok, const Parts&... parts) const {
    if (!ok) refuse(concat(parts...));
  }

 private:
  const Tensor& given(size_t i) const;

  const Step& step_;
  std::span<const Tensor> inputs_;
  int64_t opset_;
  Device device_;
};

}  // namespace tensora::onnx

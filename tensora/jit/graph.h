#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensora/dispatch/op.h"

namespace tensora::jit {

/// A copy of an op's attributes.
class AttrsCopy {
 public:
  AttrsCopy() = default;
  AttrsCopy(const OpBase& op, const void* attrs);
  const void* get() const { return attrs_.get(); }

 private:
  std::shared_ptr<void> attrs_;
};

/// A tensor that occurs in a graph: an input, a tensor that the function captured, or the result
/// of a node. When the graph runs, it has exactly this layout.
struct Value {
  Shape sizes;
  Strides strides;
  DType dtype = DType::float32;
  Device device;
  Tensor constant;  // defined for captured tensors only
};

/// Where a part of a tensor lies, counted from the tensor's first element.
struct Part {
  Shape sizes;
  Strides strides;
  int64_t offset_bytes = 0;
  DType dtype = DType::float32;
};

/// One step of a graph; the numbers are positions in Graph::values.
struct GraphNode {
  enum class Kind : uint8_t {
    op,      // the op's results, in memory of their own
    view,    // the part of input 0
    write,   // a copy of input 0 in which the part is input 1
    update,  // writes input 1 into input 0, an input of the graph or a captured tensor
  };
  Kind kind = Kind::op;
  const OpBase* op = nullptr;  // with `attrs` and `compute_dtype`, of ops only
  AttrsCopy attrs = {};
  std::vector<int> inputs = {};  // -1: an optional input that is undefined
  std::vector<int> outputs = {};
  DType compute_dtype = DType::float32;  // pointwise ops: in which the inputs meet
  Part part = {};                        // of views and writes
  bool random = false;                   // an op that draws new numbers whenever the graph runs
};

/// A function of tensors as a list of steps, in the order in which they ran.
struct Graph {
  std::vector<Value> values;
  std::vector<GraphNode> nodes;
  std::vector<int> inputs;
  std::vector<int> outputs;
  uint64_t random_counters = 0;     // how much of the random stream one run uses
  bool depends_on_offsets = false;  // on where the inputs lie in their storages
  std::string layout;               // of the inputs: see layout_of

  Value& value(int id) { return values[static_cast<size_t>(id)]; }
  const Value& value(int id) const { return values[static_cast<size_t>(id)]; }
};

using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

/// The seed by which ops that draw from the thread's random stream are known while they are
/// traced; their offsets then count from the beginning of the run.
inline constexpr uint64_t kTracedSeed = 0x7472'6163'6564'2e2e;

/// Records what `function` does to inputs like these. Nothing is computed: shapes, dtypes, devices
/// and the path through the function's own branches become fixed, and asking for a tensor's value
/// throws. See Note [Tracing without data].
Graph trace(const Function& function, std::span<const Tensor> inputs);

/// Does to these inputs, and to the tensors that the function captured, what the function does:
/// writes, random numbers of the thread's stream, results that share memory. Throws if the inputs
/// do not have the layout of those it was traced on, or if gradients are asked for.
std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs);

/// What a trace depends on: dtypes, sizes, strides, devices, which inputs share a storage, and
/// where they lie in it if they do or if `with_offsets`.
std::string layout_of(std::span<const Tensor> inputs, bool with_offsets);

/// One line per node: "%3 = add(%0, %2, alpha=1) : float32 [4, 5]".
std::string to_string(const Graph& graph);

}  // namespace tensora::jit

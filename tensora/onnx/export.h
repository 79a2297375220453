#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tensora/io/state.h"
#include "tensora/jit/graph.h"
#include "tensora/onnx/proto.h"

// Export of functions and modules to ONNX: docs/onnx.md.

namespace tensora::onnx {

struct ExportOptions {
  /// Names of the graph's inputs and outputs, in order; those that are left out become "input_0",
  /// "output_0", ….
  std::vector<std::string> input_names = {}, output_names = {};
  /// For an input or output by name, a symbol for each axis whose size may differ from the
  /// example's. Axes of one symbol have one size. See Note [Sizes by experiment].
  std::map<std::string, std::map<int64_t, std::string>> dynamic_axes = {};
  /// The version of ONNX's operators, from kLowestWritten to kHighestWritten.
  int64_t opset_version = 20;
  /// Tensors that the function captures, by the names that they get in the file; the others are
  /// numbered.
  StateDict parameters = {};
  std::string graph_name = "main_graph";
};

/// Records what `function` does to inputs like these (jit/graph.h) and writes it in ONNX's
/// operators. Nothing is computed. Ops without a counterpart are written by their definition in
/// other ops; one that has neither throws and is named, as are random ops and writes to inputs or
/// captured tensors. With dynamic axes the function is called five times.
ModelProto export_model(const jit::Function& function, std::span<const Tensor> inputs,
                        const ExportOptions& options = {});

/// One row of the table of ops that are written directly.
struct ExportedOp {
  std::string_view op;    // as Tensora calls it
  std::string_view onnx;  // the operators that it becomes
};
/// The whole table, sorted by name.
std::vector<ExportedOp> exported_ops();

}  // namespace tensora::onnx

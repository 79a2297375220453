#pragma once

// Internal header: from a traced graph to a graph of ONNX's operators.

#include "tensora/jit/graph.h"
#include "tensora/onnx/graph_builder.h"

namespace tensora::onnx {

/// Writes the nodes of a traced graph whose inputs have these names; returns the names of its
/// outputs.
Names translate(GraphBuilder& builder, const jit::Graph& graph, const Names& inputs);

/// A function as it was traced with one choice of sizes.
struct TracedGraph {
  GraphProto graph;
  std::unordered_map<std::string, TracedValue> values;
  std::unordered_map<std::string, std::string> reasons;
  std::vector<std::string> sources = {};
  /// After merging: of each output's dims, the sizes in all traces.
  std::map<std::string, std::vector<std::vector<int64_t>>> output_sizes = {};
};
/// Merges the graphs of several traces with different sizes into the first of them: constants that
/// differ become formulas of sizes. See Note [Sizes by experiment].
void merge_traces(std::vector<TracedGraph>& traces);

}  // namespace tensora::onnx

#include "tensora/onnx/export.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <set>

#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/build_info.h"
#include "tensora/jit/trace_views.h"
#include "tensora/onnx/rnn_call.h"
#include "tensora/onnx/translate.h"
#include "tensora/ops.h"

// Note [Sizes by experiment]
// A function in C++ or Python reads sizes as plain integers, so a trace holds numbers where the
// graph needs formulas. The function is therefore traced several times, each time with other sizes
// along the dynamic axes (tracing computes nothing), and every trace is translated. The
// translations must consist of the same nodes. A constant that differs is a list of sizes; for each
// of its entries a formula is looked for that gives the right number in all traces: the size of
// some earlier value, a multiple of it plus a constant, a quotient, or a product of sizes. Two of
// the traces determine a formula, the others check it. Where none is found, or the traces take
// different steps, the export fails and says which op it was.

namespace tensora::onnx {
namespace {

constexpr size_t kTraces = 5;

/// The sizes of the dynamic axes in all traces, by their symbols.
using SymbolSizes = std::map<std::string, std::vector<int64_t>>;

struct Axes {
  std::vector<std::map<int, std::string>> of_inputs;  // the symbols of each input's axes
  std::map<std::string, int64_t> examples;            // the size of each symbol in the example
};

std::string numbered(std::string_view what, size_t i) { return concat(what, "_", i); }

Names names_of(const std::vector<std::string>& given, size_t count, const char* what) {
  check(given.size() <= count, "onnx: ", given.size(), " ", what, " names for ", count, " ", what,
        count == 1 ? "" : "s");
  Names names = given;
  for (size_t i = given.size(); i < count; ++i) names.push_back(numbered(what, i));
  return names;
}

Axes axes_of(const ExportOptions& options, const Names& input_names,
             std::span<const Tensor> inputs) {
  Axes axes;
  axes.of_inputs.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto found = options.dynamic_axes.find(input_names[i]);
    if (found == options.dynamic_axes.end()) continue;
    for (const auto& [axis, symbol] : found->second) {
      const int d = wrap_dim(axis, inputs[i].dim(), "onnx: dynamic_axes");
      check(!symbol.empty(), "onnx: dynamic axis ", axis, " of '", input_names[i], "' has no name");
      axes.of_inputs[i][d] = symbol;
      const auto [example, is_new] = axes.examples.emplace(symbol, inputs[i].size(d));
      check(is_new || example->second == inputs[i].size(d), "onnx: the dynamic axes '", symbol,
            "' of the example inputs have the sizes ", example->second, " and ", inputs[i].size(d),
            "; give different names to axes that may differ");
    }
  }
  return axes;
}

void check_axis_names(const ExportOptions& options, const Names& inputs, const Names& outputs) {
  for (const auto& [name, axes] : options.dynamic_axes)
    check(std::find(inputs.begin(), inputs.end(), name) != inputs.end() ||
              std::find(outputs.begin(), outputs.end(), name) != outputs.end(),
          "onnx: dynamic_axes names '", name, "', which is neither an input nor an output");
}

// ---- sizes to try ------------------------------------------------------------------------------

// Row k: what trace k adds to a size, or multiplies it with, in an order that differs from symbol
// to symbol, so that no two symbols have equal sizes throughout.
constexpr std::array<std::array<int64_t, kTraces>, 4> kSteps = {
    {{1, 2, 4, 7, 11}, {2, 5, 3, 1, 9}, {3, 1, 8, 5, 2}, {5, 4, 1, 9, 3}}};

enum class Change { larger, smaller, multiples, fractions };

std::optional<SymbolSizes> changed_sizes(const std::map<std::string, int64_t>& examples,
                                         Change change) {
  SymbolSizes result;
  size_t row = 0;
  for (const auto& [symbol, size] : examples) {
    // Symbols beyond the fourth take wider steps.
    const auto& steps = kSteps[row % kSteps.size()];
    const auto scale = static_cast<int64_t>(row / kSteps.size() + 1);
    ++row;
    for (int64_t step : steps) {
      const int64_t by = step * scale;
      int64_t changed = size + by;
      if (change == Change::smaller && size >= by + 2) changed = size - by;
      if (change == Change::multiples) changed = std::max<int64_t>(size, 1) * (by + 1);
      if (change == Change::fractions) {
        if (size % 16 != 0) return std::nullopt;
        changed = size / 16 * (by + 1);
      }
      if (changed < 2) return std::nullopt;
      result[symbol].push_back(changed);
    }
  }
  return result;
}

Tensor resized(const Tensor& input, const std::map<int, std::string>& axes,
               const SymbolSizes& symbols, size_t trace) {
  if (axes.empty()) return input;
  Shape sizes = input.sizes();
  for (const auto& [d, symbol] : axes) sizes[d] = symbols.at(symbol)[trace];
  // Only the layout is looked at.
  Tensor result = make_tensor(sizes, input.dtype(), DeviceType::meta);
  result.impl().view.device = input.device();
  return result;
}

// ---- one trace ---------------------------------------------------------------------------------

void set_outputs(GraphBuilder& builder, const Names& computed, const Names& names) {
  std::set<std::string> inputs;
  for (const ValueInfoProto& input : builder.graph.inputs) inputs.insert(input.name);
  for (size_t i = 0; i < computed.size(); ++i) {
    const TracedValue value = builder.values.at(computed[i]);
    // Each output is the result of a node of its own, so that it can have its name.
    NodeProto node;
    node.op_type = "Identity";
    node.name = concat("Identity_", names[i]);
    node.inputs = {computed[i]};
    node.outputs = {names[i]};
    builder.graph.nodes.push_back(std::move(node));
    builder.sources.emplace_back("output");
    builder.values[names[i]] = value;
    ValueInfoProto info{names[i], value.dtype, std::vector<Dimension>()};
    for (int64_t size : value.sizes) info.sizes->push_back({size, ""});
    builder.graph.outputs.push_back(std::move(info));
  }
}

// The node that computes an output takes the output's name in place of an Identity behind it.
void name_outputs(GraphProto& graph) {
  std::map<std::string, size_t> uses;
  for (const NodeProto& node : graph.nodes)
    for (const std::string& input : node.inputs) ++uses[input];
  std::map<std::string, std::string> renamed;
  std::set<std::string> made;
  for (const NodeProto& node : graph.nodes)
    if (node.op_type != "Identity") made.insert(node.outputs.begin(), node.outputs.end());
  std::vector<NodeProto> kept;
  for (NodeProto& node : graph.nodes) {
    const bool is_output = node.op_type == "Identity" && made.contains(node.inputs[0]) &&
                           !renamed.contains(node.inputs[0]);
    if (is_output)
      renamed[node.inputs[0]] = node.outputs[0];
    else
      kept.push_back(std::move(node));
  }
  for (NodeProto& node : kept)
    for (auto* names : {&node.inputs, &node.outputs})
      for (std::string& name : *names)
        if (const auto found = renamed.find(name); found != renamed.end()) name = found->second;
  graph.nodes = std::move(kept);
}

TracedGraph trace_once(const jit::Function& function, std::span<const Tensor> inputs,
                       const Names& input_names, const ExportOptions& options) {
  const jit::Function with_layers = [&](std::span<const Tensor> given) {
    KeepsRnnLayers layers;
    const InterceptorScope installed(layers);
    return function(given);
  };
  const jit::Graph traced = jit::trace_views(with_layers, inputs);
  GraphBuilder builder(options.opset_version, options.parameters);
  builder.graph.name = options.graph_name;
  for (size_t i = 0; i < inputs.size(); ++i) {
    builder.reserve(input_names[i], concat("input ", i));
    ValueInfoProto info{input_names[i], inputs[i].dtype(), std::vector<Dimension>()};
    element_type(info.dtype);
    for (int64_t size : inputs[i].sizes()) info.sizes->push_back({size, ""});
    builder.graph.inputs.push_back(std::move(info));
  }
  const Names output_names = names_of(options.output_names, traced.outputs.size(), "output");
  check(!output_names.empty(), "onnx: the function returns no tensor");
  check_axis_names(options, input_names, output_names);
  for (size_t i = 0; i < output_names.size(); ++i)
    builder.reserve(output_names[i], concat("output ", i));
  set_outputs(builder, translate(builder, traced, input_names), output_names);
  return {std::move(builder.graph), std::move(builder.values), std::move(builder.reasons),
          std::move(builder.sources)};
}

std::vector<TracedGraph> trace_all(const jit::Function& function, std::span<const Tensor> inputs,
                                   const Names& names, const ExportOptions& options,
                                   const Axes& axes, const SymbolSizes& sizes) {
  std::vector<TracedGraph> traces;
  for (size_t k = 0; k < kTraces; ++k) {
    std::vector<Tensor> changed;
    for (size_t i = 0; i < inputs.size(); ++i)
      changed.push_back(resized(inputs[i], axes.of_inputs[i], sizes, k));
    traces.push_back(trace_once(function, changed, names, options));
  }
  return traces;
}

// Traces with larger sizes; where the function refuses those (a limited context, a table of
// positions), with smaller ones as far as there are any; and where it wants certain multiples, with
// such.
TracedGraph trace_dynamic(const jit::Function& function, std::span<const Tensor> inputs,
                          const Names& names, const ExportOptions& options, const Axes& axes,
                          SymbolSizes& sizes) {
  std::exception_ptr first;
  for (Change change : {Change::larger, Change::smaller, Change::multiples, Change::fractions}) {
    const auto tried = changed_sizes(axes.examples, change);
    if (!tried) continue;
    try {
      std::vector<TracedGraph> traces = trace_all(function, inputs, names, options, axes, *tried);
      merge_traces(traces);
      sizes = *tried;
      return std::move(traces[0]);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  check(first != nullptr, "onnx: the sizes of the dynamic axes are too small to be varied");
  try {
    std::rethrow_exception(first);
  } catch (const NotImplementedError&) {
    throw;
  } catch (const Error& error) {
    fail(
        "onnx: the graph cannot be exported for other sizes of the dynamic axes than the "
        "example's: ",
        error.what());
  }
}

// ---- symbols -----------------------------------------------------------------------------------

void name_input_axes(GraphProto& graph, const Axes& axes) {
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    for (const auto& [d, symbol] : axes.of_inputs[i])
      (*graph.inputs[i].sizes)[static_cast<size_t>(d)] = {std::nullopt, symbol};
}

// merge_traces has left out the sizes of outputs that differ. Those that are a symbol's get its
// name.
void name_output_axes(GraphProto& graph, const ExportOptions& options, const SymbolSizes& symbols,
                      const std::map<std::string, std::vector<std::vector<int64_t>>>& profiles) {
  for (ValueInfoProto& output : graph.outputs) {
    const auto asked = options.dynamic_axes.find(output.name);
    for (size_t d = 0; d < output.sizes->size(); ++d) {
      Dimension& dimension = (*output.sizes)[d];
      if (dimension.size) continue;
      for (const auto& [symbol, sizes] : symbols)
        if (profiles.at(output.name)[d] == sizes) dimension.symbol = symbol;
      if (dimension.symbol.empty() && asked != options.dynamic_axes.end())
        for (const auto& [axis, symbol] : asked->second)
          if ((axis < 0 ? axis + std::ssize(*output.sizes) : axis) == static_cast<int64_t>(d))
            dimension.symbol = symbol;
      if (dimension.symbol.empty()) dimension.symbol = concat(output.name, "_size_", d);
    }
    if (asked == options.dynamic_axes.end()) continue;
    for (const auto& [axis, symbol] : asked->second) {
      const int d = wrap_dim(axis, static_cast<int>(output.sizes->size()), "onnx: dynamic_axes");
      check(!(*output.sizes)[static_cast<size_t>(d)].size, "onnx: axis ", axis, " of output '",
            output.name, "' is said to be dynamic ('", symbol, "'), but its size is always ",
            *(*output.sizes)[static_cast<size_t>(d)].size,
            "; name the axes of the inputs that it follows");
    }
  }
}

int64_t ir_version_of(int64_t opset) {
  return opset == 18 ? 8 : opset <= 20 ? 9 : opset <= 22 ? 10 : 11;
}

}  // namespace

ModelProto export_model(const jit::Function& function, std::span<const Tensor> inputs,
                        const ExportOptions& options) {
  check_as<ValueError>(
      options.opset_version >= kLowestWritten && options.opset_version <= kHighestWritten,
      "onnx: opset_version must be from ", kLowestWritten, " to ", kHighestWritten, ", got ",
      options.opset_version);
  for (size_t i = 0; i < inputs.size(); ++i)
    check(inputs[i].defined(), "onnx: input ", i, " is an undefined tensor");
  const Names names = names_of(options.input_names, inputs.size(), "input");
  const Axes axes = axes_of(options, names, inputs);
  ModelProto model;
  model.ir_version = ir_version_of(options.opset_version);
  model.opset_version = options.opset_version;
  model.producer_name = "tensora";
  model.producer_version = build_info().version;
  if (axes.examples.empty()) {
    model.graph = trace_once(function, inputs, names, options).graph;
    name_output_axes(model.graph, options, {}, {});
  } else {
    SymbolSizes symbols;
    TracedGraph merged = trace_dynamic(function, inputs, names, options, axes, symbols);
    model.graph = std::move(merged.graph);
    name_input_axes(model.graph, axes);
    name_output_axes(model.graph, options, symbols, merged.output_sizes);
  }
  simplify(model.graph);
  name_outputs(model.graph);
  check_model(model);
  return model;
}

}  // namespace tensora::onnx

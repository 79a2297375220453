#include "tensora/onnx/translate.h"

#include <algorithm>

#include "tensora/base/error_kinds.h"
#include "tensora/jit/trace_views.h"
#include "tensora/onnx/op_call.h"
#include "tensora/onnx/rnn_call.h"
#include "tensora/ops.h"

// Note [From a trace to ONNX]
// An op is written by its row of the table or, if it has none, as its definition in other ops,
// which is traced and translated in its place. ONNX has values and no memory: a view is the
// operator that computes it, and a write into a part of a tensor is a new tensor, which the trace
// has already arranged (Note [Writes as values]). Only what the trace knows by its place in memory
// alone, parts that are written and tensors that are read again after a write, becomes a gather or
// scatter of constant positions.

namespace tensora::onnx {
namespace {

using Kind = jit::GraphNode::Kind;

constexpr int64_t kMostPositions = int64_t{1} << 24;

// Calls body(place) for the places of all elements, in row-major order, counted in elements from
// the first.
template <class Body>
void for_each_place(const Shape& sizes, const Strides& strides, const Body& body) {
  if (sizes.contains(0)) return;
  Shape at = Shape::filled(sizes.size(), 0);
  int64_t place = 0;
  while (true) {
    body(place);
    int d = sizes.size() - 1;
    for (; d >= 0; --d) {
      place += strides[d];
      if (++at[d] < sizes[d]) break;
      place -= strides[d] * sizes[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

class Translation {
 public:
  Translation(GraphBuilder& builder, const jit::Graph& graph)
      : builder_(builder), graph_(graph), names_(graph.values.size()) {}

  Names run(const Names& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) set(graph_.inputs[i], inputs[i]);
    for (const jit::GraphNode& node : graph_.nodes) translate(node);
    Names outputs;
    for (int id : graph_.outputs) outputs.push_back(name_of(id));
    return outputs;
  }

 private:
  const std::string& name_of(int id) {
    std::string& name = names_[static_cast<size_t>(id)];
    const Tensor& constant = graph_.value(id).constant;
    if (name.empty() && constant.defined()) name = builder_.constant(constant);
    check(!name.empty(), "onnx: ", missing_[id], " has no form in ONNX");
    return name;
  }
  void set(int id, std::string name) {
    builder_.values[name] = {graph_.value(id).dtype, graph_.value(id).sizes};
    names_[static_cast<size_t>(id)] = std::move(name);
  }

  void translate(const jit::GraphNode& node) {
    const std::string outer = builder_.current_source;
    // In a definition, the errors name the op that the program called.
    if (node.op && outer.empty()) builder_.current_source = node.op->name;
    switch (node.kind) {
      case Kind::op:
        write_op(node);
        break;
      case Kind::view:
        if (node.op && find_export(node.op->name))
          write_op(node);
        else
          write_gather(node);
        break;
      case Kind::write:
        write_scatter(node);
        break;
      case Kind::update:
        fail("onnx: the function writes into ",
             std::find(graph_.inputs.begin(), graph_.inputs.end(), node.inputs[0]) ==
                     graph_.inputs.end()
                 ? "a tensor that it captured"
                 : "one of its inputs",
             ", of shape ", graph_.value(node.inputs[0]).sizes,
             "; an ONNX graph has no memory. Export the module in eval mode, or clone the tensor");
    }
    builder_.current_source = outer;
  }

  void write_op(const jit::GraphNode& node) {
    Names inputs;
    for (int id : node.inputs) inputs.push_back(id < 0 ? std::string() : name_of(id));
    OpCall call(builder_, graph_, node, std::move(inputs));
    for (size_t i = 0; i < call.results(); ++i)
      if (is_complex(call.result_dtype(i)) || is_quantized(call.result_dtype(i)))
        call.refuse(concat("ONNX's operators do not take ", call.result_dtype(i), " tensors"));
    const OpExport* row = find_export(node.op->name);
    Exprs results;
    if (row) results = row->write ? row->write(call) : by_name(call, row->onnx);
    if (results.empty()) return write_definition(node, call);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const int id = node.outputs[i];
      if (i < results.size())
        set(id, converted(call, *row, results[i], i));
      else
        missing_[id] = concat("result ", i, " of op '", node.op->name, "'");
    }
  }

  static Exprs by_name(OpCall& call, std::string_view onnx) {
    Exprs operands;
    for (size_t i = 0; i < call.inputs(); ++i) operands.push_back(call.operand(i));
    return {call.emit(onnx, operands)};
  }

  // Pointwise ops compute in the dtype in which their operands meet; the result may have another.
  std::string converted(OpCall& call, const OpExport& row, const Expr& result, size_t i) {
    if (!row.write) return call.cast(result, call.compute_dtype(), call.result_dtype(i)).name;
    return result.name;
  }

  // What a definition gets in place of a value: the layout without contents.
  static Tensor stand_in(const jit::Value& value) {
    Tensor tensor = make_tensor(value.sizes, value.strides, value.dtype, DeviceType::meta);
    tensor.impl().view.device = value.device;
    return tensor;
  }

  void write_definition(const jit::GraphNode& node, const OpCall& call) {
    const OpBase& op = *node.op;
    if (!op.has_reference)
      call.refuse(call.random()
                      ? "it draws random numbers; export the module in eval mode"
                      : "there is no operator for it, and it has no definition in other ops");
    std::vector<Tensor> variable;
    Names names;
    for (int id : node.inputs)
      if (id >= 0 && !graph_.value(id).constant.defined()) {
        variable.push_back(stand_in(graph_.value(id)));
        names.push_back(name_of(id));
      }
    const jit::Function function = [&](std::span<const Tensor> given) {
      std::vector<Tensor> all;
      size_t next = 0;
      for (int id : node.inputs) {
        if (id < 0)
          all.emplace_back();
        else if (const Tensor& constant = graph_.value(id).constant; constant.defined())
          all.push_back(constant);
        else
          all.push_back(given[next++]);
      }
      const SmallVector<Arg, 8> args = args_of(all);
      KeepsRnnLayers layers;
      const InterceptorScope installed(layers);
      const Tensors results = op.reference(op, {args.data(), args.size()}, node.attrs.get());
      return std::vector<Tensor>(results.begin(), results.end());
    };
    const jit::Graph definition =
        called_as("onnx", [&] { return jit::trace_views(function, variable); });
    const Names results = onnx::translate(builder_, definition, names);
    for (size_t i = 0; i < node.outputs.size(); ++i) set(node.outputs[i], results[i]);
  }

  // ---- parts by their place in memory ----------------------------------------------------------

  // The elements of a tensor's part, as positions among those of the tensor.
  Tensor positions(int whole, const jit::Part& part) const {
    const jit::Value& value = graph_.value(whole);
    check(part.dtype == value.dtype, "onnx: a view of a ", value.dtype, " tensor as ", part.dtype,
          " has no form in ONNX");
    const int64_t count = value.sizes.numel();
    check(count <= kMostPositions && part.sizes.numel() <= kMostPositions,
          "onnx: a part of a tensor of shape ", value.sizes,
          " is taken by its place in memory, which is possible for up to ", kMostPositions,
          " elements");
    std::unordered_map<int64_t, int64_t> position_of;
    int64_t next = 0;
    for_each_place(value.sizes, value.strides, [&](int64_t place) { position_of[place] = next++; });
    const int64_t start = part.offset_bytes / static_cast<int64_t>(element_size(part.dtype));
    std::vector<int64_t> result;
    for_each_place(part.sizes, part.strides, [&](int64_t place) {
      const auto found = position_of.find(start + place);
      check(found != position_of.end(), "onnx: a view of a tensor of shape ", value.sizes,
            " reaches memory between its elements, which has no form in ONNX");
      result.push_back(found->second);
    });
    return tensor(result, {.dtype = kInt64});
  }

  std::string sizes_constant(const std::vector<int64_t>& sizes) {
    return builder_.size_constant(tensor(sizes, {.dtype = kInt64}), "the shape");
  }
  std::string reshaped(const std::string& x, const Shape& sizes) {
    Attributes attributes;
    if (sizes.contains(0)) attributes.push_back(AttributeProto::of("allowzero", int64_t{1}));
    return builder_.add("Reshape", {x, sizes_constant(sizes.vec())}, attributes, 1, "reshape")[0];
  }
  static std::string described(std::string_view what) {
    return concat(what, " that the function writes to in part");
  }

  void write_gather(const jit::GraphNode& node) {
    const std::string places = builder_.size_constant(positions(node.inputs[0], node.part),
                                                      described("the positions of a tensor"));
    const std::string flat = reshaped(name_of(node.inputs[0]), {-1});
    const std::string part = builder_.add("Gather", {flat, places}, {}, 1, "gather")[0];
    set(node.outputs[0], reshaped(part, node.part.sizes));
  }

  void write_scatter(const jit::GraphNode& node) {
    const jit::Value& whole = graph_.value(node.inputs[0]);
    const jit::Value& source = graph_.value(node.inputs[1]);
    std::string values = name_of(node.inputs[1]);
    if (source.dtype != whole.dtype)
      values = builder_.add("Cast", {values},
                            {AttributeProto::of("to", int64_t{element_type(whole.dtype)})}, 1,
                            "cast")[0];
    if (node.part.offset_bytes == 0 && node.part.sizes == whole.sizes &&
        node.part.strides == whole.strides)
      return set(node.outputs[0], values);
    const std::string places = builder_.size_constant(positions(node.inputs[0], node.part),
                                                      described("the positions of a tensor"));
    const std::string flat = reshaped(name_of(node.inputs[0]), {-1});
    const std::string written =
        builder_.add("ScatterElements", {flat, places, reshaped(values, {-1})},
                     {AttributeProto::of("axis", int64_t{0})}, 1, "scatter")[0];
    set(node.outputs[0], reshaped(written, whole.sizes));
  }

  GraphBuilder& builder_;
  const jit::Graph& graph_;
  Names names_;
  std::unordered_map<int, std::string> missing_;  // results that no operator gives
};

}  // namespace

Names translate(GraphBuilder& builder, const jit::Graph& graph, const Names& inputs) {
  return Translation(builder, graph).run(inputs);
}

}  // namespace tensora::onnx

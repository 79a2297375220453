#include "tensora/onnx/import.h"

#include <algorithm>
#include <unordered_map>

#include "tensora/core/thread_state.h"
#include "tensora/dispatch/interceptor.h"
#include "tensora/io/mapped_file.h"
#include "tensora/onnx/node_call.h"
#include "tensora/ops.h"

// Note [Sizes on the host]
// ONNX computes sizes with the same operators as everything else: Shape, Gather, Mul, Concat, then
// Reshape. These run on small integer tensors that are never deferred: a node all of whose inputs
// are sizes, or integer constants, runs on the CPU outside of interceptors and lazy scopes, and so
// does what reads them. A program can therefore be traced and exported again, and a GPU is not
// waited for.

namespace tensora::onnx {
namespace {

using Type = AttributeProto::Type;

constexpr int64_t kMostHostElements = 4096;

bool is_host_dtype(DType dtype) { return is_integral(dtype) || dtype == DType::boolean; }

// Suspends the interceptors and the lazy scope of this thread.
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

std::string described(const NodeProto& node) {
  return node.name.empty() ? concat("a node ", node.op_type)
                           : concat("the node '", node.name, "' (", node.op_type, ")");
}

bool lists(std::string_view names, std::string_view name) {
  size_t start = 0;
  while (start <= names.size()) {
    const size_t end = std::min(names.find(' ', start), names.size());
    if (names.substr(start, end - start) == name) return true;
    start = end + 1;
  }
  return false;
}

void check_node(const NodeProto& node, const OpImport* row) {
  if (!row)
    throw NotImplementedError(
        concat("onnx: ", described(node), ": this operator cannot be imported"));
  const auto given = static_cast<int>(node.inputs.size());
  check(given >= row->least_inputs && (row->most_inputs < 0 || given <= row->most_inputs),
        "onnx: ", described(node), " has ", given, " inputs");
  for (int i = 0; i < row->least_inputs; ++i)
    check(!node.inputs[static_cast<size_t>(i)].empty(), "onnx: ", described(node), ": input ", i,
          " is missing");
  for (const AttributeProto& attribute : node.attributes)
    check(lists(row->attributes, attribute.name), "onnx: ", described(node), " has the attribute '",
          attribute.name, "', which is unknown");
}

template <class T>
const T& checked(const AttributeProto& attribute, Type type, const T& value, std::string_view op,
                 std::string_view what) {
  check(attribute.type == type, "onnx: ", op, ": the attribute '", attribute.name, "' must be ",
        what);
  return value;
}

}  // namespace

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

// ---- Program -----------------------------------------------------------------------------------

Program::Program(const ModelProto& model) : opset_(model.opset_version) {
  check_model(model);
  std::unordered_map<std::string, int> slot_of;
  const auto add_slot = [&](const std::string& name) {
    return slot_of[name] = static_cast<int>(slots_++);
  };
  for (const auto& [name, tensor] : model.graph.initializers) {
    weights_.insert(name, tensor);
    is_host_.push_back(is_host_dtype(tensor.dtype()) && tensor.numel() <= kMostHostElements);
    add_slot(name);
  }
  for (const ValueInfoProto& input : model.graph.inputs)
    if (!slot_of.contains(input.name)) {
      inputs_.push_back(input);
      add_slot(input.name);
    }
  outputs_ = model.graph.outputs;
  std::vector<Step> steps;
  for (const NodeProto& node : model.graph.nodes) {
    Step step{.node = node, .row = find_import(node.op_type)};
    check_node(node, step.row);
    for (const std::string& input : node.inputs)
      step.inputs.push_back(input.empty() ? -1 : slot_of.at(input));
    for (const std::string& output : node.outputs)
      step.outputs.push_back(output.empty() ? -1 : add_slot(output));
    steps.push_back(std::move(step));
  }
  for (const ValueInfoProto& output : outputs_)
    output_slots_.push_back(static_cast<size_t>(slot_of.at(output.name)));
  // Going backwards, the first mention of a value is its last use.
  std::vector<bool> needed(slots_, false);
  for (size_t slot : output_slots_) needed[slot] = true;
  for (size_t i = steps.size(); i-- > 0;)
    for (const std::vector<int>* slots : {&steps[i].outputs, &steps[i].inputs})
      for (int slot : *slots)
        if (slot >= 0 && !needed[static_cast<size_t>(slot)]) {
          needed[static_cast<size_t>(slot)] = true;
          steps[i].dying.push_back(slot);
        }
  for (Step& step : steps) steps_.push_back(std::make_shared<const Step>(std::move(step)));
}

void Program::to(Device device) {
  StateDict moved;
  for (const auto& [name, tensor] : weights_)
    moved.insert(name, is_floating_point(tensor.dtype()) ? tensora::to(tensor, device) : tensor);
  weights_ = std::move(moved);
}

std::vector<Tensor> Program::operator()(std::span<const Tensor> inputs) const {
  std::vector<Tensor> weights;
  for (const auto& [name, tensor] : weights_) weights.push_back(tensor);
  return run(inputs, weights);
}

void Program::check_inputs(std::span<const Tensor> inputs) const {
  check(inputs.size() == inputs_.size(), "onnx: the graph has ", inputs_.size(), " inputs, got ",
        inputs.size());
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueInfoProto& expected = inputs_[i];
    check(inputs[i].defined(), "onnx: input '", expected.name, "' is an undefined tensor");
    check_as<TypeError>(inputs[i].dtype() == expected.dtype, "onnx: input '", expected.name,
                        "' must be ", expected.dtype, ", got ", inputs[i].dtype());
    if (!expected.sizes) continue;
    const Shape& sizes = inputs[i].sizes();
    check(static_cast<size_t>(sizes.size()) == expected.sizes->size(), "onnx: input '",
          expected.name, "' must have ", expected.sizes->size(), " dims, got shape ", sizes);
    for (int d = 0; d < sizes.size(); ++d) {
      const Dimension& dimension = (*expected.sizes)[static_cast<size_t>(d)];
      check(!dimension.size || *dimension.size == sizes[d], "onnx: input '", expected.name,
            "' must have size ", dimension.size.value_or(0), " along dim ", d, ", got shape ",
            sizes);
      if (dimension.size || dimension.symbol.empty()) continue;
      const auto [known, is_new] = symbols.emplace(dimension.symbol, sizes[d]);
      check(is_new || known->second == sizes[d], "onnx: the inputs have different sizes for '",
            dimension.symbol, "': ", known->second, " and ", sizes[d]);
    }
  }
}

std::vector<Tensor> Program::run(std::span<const Tensor> inputs,
                                 std::span<const Tensor> weights) const {
  check_inputs(inputs);
  check(weights.size() == weights_.size(), "onnx: the graph has ", weights_.size(),
        " weights, got ", weights.size());
  std::vector<Tensor> values(weights.begin(), weights.end());
  values.insert(values.end(), inputs.begin(), inputs.end());
  values.resize(slots_);
  std::vector<bool> is_host = is_host_;
  is_host.resize(slots_, false);
  for (const auto& step : steps_) run_step(*step, values, is_host);
  std::vector<Tensor> results;
  for (size_t slot : output_slots_) results.push_back(values[slot]);
  return results;
}

void Program::run_step(const Step& step, std::vector<Tensor>& values,
                       std::vector<bool>& is_host) const {
  std::vector<Tensor> given;
  Device device;  // of the node
  bool all_host = true;
  for (int slot : step.inputs) {
    given.push_back(slot < 0 ? Tensor() : values[static_cast<size_t>(slot)]);
    if (slot < 0 || is_host[static_cast<size_t>(slot)]) continue;
    all_host = false;
    if (!given.back().device().is_cpu()) device = given.back().device();
  }
  const bool reads_sizes = step.row->op == "Shape" || step.row->op == "Size";
  const bool on_host = reads_sizes || all_host;
  std::vector<Tensor> results;
  {
    const AtOnce at_once(on_host);
    results = step.row->run(NodeCall(step, given, opset_, device));
  }
  check(results.size() >= step.outputs.size() ||
            std::all_of(step.outputs.begin() + std::ssize(results), step.outputs.end(),
                        [](int slot) { return slot < 0; }),
        "onnx: ", described(step.node), " has more outputs than its operator gives");
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const int slot = step.outputs[i];
    if (slot < 0) continue;
    check(results[i].defined(), "onnx: ", described(step.node), ": output ", i,
          " cannot be computed");
    is_host[static_cast<size_t>(slot)] =
        on_host && is_host_dtype(results[i].dtype()) && results[i].numel() <= kMostHostElements;
    values[static_cast<size_t>(slot)] = std::move(results[i]);
  }
  for (int slot : step.dying) values[static_cast<size_t>(slot)] = {};
}

Program load_onnx(const std::string& path) { return Program(read_model(path)); }

}  // namespace tensora::onnx

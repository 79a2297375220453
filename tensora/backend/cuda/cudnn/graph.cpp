#include "tensora/backend/cuda/cudnn/graph.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/stream.h"

namespace tensora::cuda::cudnn {

DataType data_type(DType dtype, std::string_view op) {
  switch (dtype) {
    case DType::float16:
      return DataType::float16;
    case DType::bfloat16:
      return DataType::bfloat16;
    case DType::float32:
      return DataType::float32;
    case DType::float64:
      return DataType::float64;
    case DType::int32:
      return DataType::int32;
    case DType::int64:
      return DataType::int64;
    case DType::boolean:
      return DataType::boolean;
    default:
      fail(op, ": cuDNN has no dtype ", dtype);
  }
}

// ---- descriptors -------------------------------------------------------------------------------

Descriptor::Descriptor(Kind kind, std::string_view op) : op_(op) {
  check_status(library().create_descriptor(kind, &raw_), op, "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
  if (raw_) library().destroy_descriptor(raw_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : raw_(std::exchange(other.raw_, nullptr)), op_(other.op_) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(raw_, other.raw_);
  std::swap(op_, other.op_);
  return *this;
}

void Descriptor::set(Attribute attribute, ValueType type, int64_t count, const void* values) {
  const Status status = library().set_attribute(raw_, attribute, type, count, values);
  if (status != Status::success) [[unlikely]]
    check_status(status, op_, concat("attribute ", static_cast<int>(attribute)));
}

void Descriptor::set(Attribute attribute, bool value) {
  set(attribute, ValueType::boolean, 1, &value);
}
void Descriptor::set(Attribute attribute, int64_t value) {
  set(attribute, ValueType::int64, 1, &value);
}
void Descriptor::set(Attribute attribute, float value) {
  set(attribute, ValueType::float32, 1, &value);
}
void Descriptor::set(Attribute attribute, double value) {
  set(attribute, ValueType::float64, 1, &value);
}
void Descriptor::set(Attribute attribute, DataType value) {
  set(attribute, ValueType::data_type, 1, &value);
}
void Descriptor::set(Attribute attribute, ConvolutionMode value) {
  set(attribute, ValueType::convolution_mode, 1, &value);
}
void Descriptor::set(Attribute attribute, HeuristicMode value) {
  set(attribute, ValueType::heuristic_mode, 1, &value);
}
void Descriptor::set(Attribute attribute, PointwiseMode value) {
  set(attribute, ValueType::pointwise_mode, 1, &value);
}
void Descriptor::set(Attribute attribute, ReductionOperator value) {
  set(attribute, ValueType::reduction_operator, 1, &value);
}
void Descriptor::set(Attribute attribute, RngDistribution value) {
  set(attribute, ValueType::rng_distribution, 1, &value);
}
void Descriptor::set(Attribute attribute, std::span<const int64_t> values) {
  set(attribute, ValueType::int64, static_cast<int64_t>(values.size()), values.data());
}
void Descriptor::set(Attribute attribute, const Descriptor& value) {
  const RawDescriptor raw = value.raw();
  set(attribute, ValueType::descriptor, 1, &raw);
}

int64_t Descriptor::get(Attribute attribute, ValueType type, int64_t most, void* values) const {
  int64_t count = 0;
  const Status status = library().get_attribute(raw_, attribute, type, most, &count, values);
  if (status != Status::success) [[unlikely]]
    check_status(status, op_, concat("attribute ", static_cast<int>(attribute)));
  return count;
}

void Descriptor::finalize() { check_status(library().finalize(raw_), op_, "cudnnBackendFinalize"); }

bool Descriptor::try_finalize() { return library().finalize(raw_) == Status::success; }

// ---- graphs ------------------------------------------------------------------------------------

TensorId Graph::tensor(const TensorSpec& spec) {
  Descriptor& tensor = tensors_.emplace_back(Kind::tensor, op_);
  const auto id = static_cast<TensorId>(tensors_.size());
  tensor.set(Attribute::tensor_data_type, spec.dtype);
  tensor.set(Attribute::tensor_dimensions, std::span<const int64_t>(spec.sizes));
  tensor.set(Attribute::tensor_strides, std::span<const int64_t>(spec.strides));
  tensor.set(Attribute::tensor_unique_id, id);
  tensor.set(Attribute::tensor_alignment, spec.alignment);
  if (spec.is_virtual) tensor.set(Attribute::tensor_is_virtual, true);
  if (spec.by_value) tensor.set(Attribute::tensor_is_by_value, true);
  tensor.finalize();
  return id;
}

Descriptor& Graph::add_operation(Kind kind) { return operations_.emplace_back(kind, op_); }
Descriptor& Graph::add_settings(Kind kind) { return settings_.emplace_back(kind, op_); }

namespace {

bool allowed(const Descriptor& config, const EngineRules& rules) {
  const Descriptor engine(Kind::engine, config.op());
  RawDescriptor raw = engine.raw();
  config.get(Attribute::engine_config_engine, ValueType::descriptor, 1, &raw);
  std::array<NumericalNote, 32> notes{};
  const int64_t count = engine.get(Attribute::engine_numerical_note, ValueType::numerical_note,
                                   static_cast<int64_t>(notes.size()), notes.data());
  const auto known = std::span(notes).first(
      static_cast<size_t>(std::min(count, static_cast<int64_t>(notes.size()))));
  return std::none_of(known.begin(), known.end(), [&](NumericalNote note) {
    return (note == NumericalNote::nondeterministic && rules.deterministic) ||
           (note == NumericalNote::tensor_core && !rules.tensor_cores) ||
           (note == NumericalNote::down_convert_inputs && !rules.down_convert);
  });
}

}  // namespace

std::vector<Plan> Graph::plans_of_mode(int device, const Descriptor& graph, HeuristicMode mode,
                                       const EngineRules& rules, size_t most) const {
  std::vector<Plan> plans;
  Descriptor heuristic(Kind::engine_heuristic, op_);
  heuristic.set(Attribute::heuristic_operation_graph, graph);
  heuristic.set(Attribute::heuristic_mode, mode);
  if (!heuristic.try_finalize()) return plans;
  int64_t count = 0;
  if (library().get_attribute(heuristic.raw(), Attribute::heuristic_results, ValueType::descriptor,
                              0, &count, nullptr) != Status::success)
    return plans;
  std::vector<Descriptor> configs;
  std::vector<RawDescriptor> raw;
  for (int64_t i = 0; i < count; ++i)
    raw.push_back(configs.emplace_back(Kind::engine_config, op_).raw());
  if (library().get_attribute(heuristic.raw(), Attribute::heuristic_results, ValueType::descriptor,
                              count, &count, raw.data()) != Status::success)
    return plans;
  configs.erase(configs.begin() + std::min<int64_t>(count, static_cast<int64_t>(configs.size())),
                configs.end());
  const Handle mine = handle(device, op_);
  for (Descriptor& config : configs) {
    if (plans.size() == most) break;
    if (!allowed(config, rules)) continue;
    Descriptor plan(Kind::execution_plan, op_);
    plan.set(Attribute::plan_handle, ValueType::handle, 1, &mine);
    plan.set(Attribute::plan_engine_config, config);
    if (!plan.try_finalize()) continue;
    int64_t bytes = 0;
    plan.get(Attribute::plan_workspace_size, ValueType::int64, 1, &bytes);
    if (static_cast<size_t>(bytes) > rules.most_workspace) continue;
    plans.push_back(Plan(std::move(config), std::move(plan), static_cast<size_t>(bytes)));
  }
  return plans;
}

std::vector<Plan> Graph::plans(int device, const EngineRules& rules, size_t most) {
  use_device(device);
  const OutsideCapture outside;  // engines may load code
  std::vector<RawDescriptor> operations;
  for (Descriptor& operation : operations_) {
    operation.finalize();
    operations.push_back(operation.raw());
  }
  Descriptor graph(Kind::operation_graph, op_);
  const Handle mine = handle(device, op_);
  graph.set(Attribute::graph_handle, ValueType::handle, 1, &mine);
  graph.set(Attribute::graph_operations, ValueType::descriptor,
            static_cast<int64_t>(operations.size()), operations.data());
  if (!graph.try_finalize()) return {};
  std::vector<Plan> found;
  // Mode A is quick to ask and knows most graphs, B is a model of the device's speed where there is
  // one; fallback engines are slow and support almost everything. Whoever times the candidates
  // gets those of all modes, since the best is not always among the first that B names.
  for (const HeuristicMode mode : {HeuristicMode::b, HeuristicMode::a, HeuristicMode::fallback}) {
    if (most == 1 && !found.empty()) break;
    std::vector<Plan> more = plans_of_mode(device, graph, mode, rules, most);
    std::move(more.begin(), more.end(), std::back_inserter(found));
  }
  return found;
}

// ---- execution ---------------------------------------------------------------------------------

Status Plan::try_run(int device, std::string_view op, std::span<const Binding> bindings,
                     void* workspace) const {
  constexpr size_t kMost = 32;
  ensure(bindings.size() <= kMost, "a cuDNN graph has at most ", kMost, " tensors");
  std::array<int64_t, kMost> ids{};
  std::array<void*, kMost> pointers{};
  for (size_t i = 0; i < bindings.size(); ++i) {
    ids[i] = bindings[i].tensor;
    pointers[i] = bindings[i].data;
  }
  const auto count = static_cast<int64_t>(bindings.size());
  Descriptor pack(Kind::variant_pack, op);
  pack.set(Attribute::pack_unique_ids, ValueType::int64, count, ids.data());
  pack.set(Attribute::pack_data_pointers, ValueType::pointer, count, pointers.data());
  pack.set(Attribute::pack_workspace, ValueType::pointer, 1, &workspace);
  pack.finalize();
  return library().execute(handle(device, op), plan_.raw(), pack.raw());
}

void Plan::run(std::string_view op, int device, std::span<const Binding> bindings) const {
  use_device(device);
  std::optional<Scratch> workspace;
  if (workspace_bytes_ > 0) workspace.emplace(device, workspace_bytes_);
  note_launch(op);
  check_status(try_run(device, op, bindings, workspace ? workspace->data() : nullptr), op,
               "cudnnBackendExecute");
  after_launch(op, device);
}

size_t fastest_plan(std::string_view op, int device, std::span<const Plan> plans,
                    std::span<const Binding> bindings) {
  constexpr int kRuns = 3, kRounds = 3;
  const Device place(DeviceType::cuda, device);
  Event begin(place, Event::Timing::on), end(place, Event::Timing::on);
  size_t best = plans.size();
  float best_time = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < plans.size(); ++i) {
    std::optional<Scratch> workspace;
    try {
      if (plans[i].workspace_bytes() > 0) workspace.emplace(device, plans[i].workspace_bytes());
    } catch (const OutOfMemoryError&) {
      continue;  // a plan that does not fit is no candidate
    }
    const auto run = [&] {
      return plans[i].try_run(device, op, bindings, workspace ? workspace->data() : nullptr);
    };
    if (run() != Status::success) continue;  // and warms up
    for (int round = 0; round < kRounds; ++round) {
      begin.record();
      for (int k = 0; k < kRuns; ++k) run();
      end.record();
      end.synchronize();
      const float time = end.milliseconds_since(begin);
      if (time >= best_time) continue;
      best_time = time;
      best = i;
    }
  }
  check(best < plans.size(), op, ": none of cuDNN's ", plans.size(), " plans runs");
  return best;
}

}  // namespace tensora::cuda::cudnn

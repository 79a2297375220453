#include "tensora/backend/cuda/runtime/graphed.h"

#include <utility>

#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/base/check.h"
#include "tensora/core/backend.h"
#include "tensora/core/thread_state.h"

namespace tensora::cuda {
namespace {

// Copies into and out of the graph's memory are no part of anyone's history.
class Unrecorded {
 public:
  Unrecorded() : scope_(modes()) {}

 private:
  static Modes modes() {
    Modes result = thread_state;  // NOLINT: the modes alone
    result.grad_enabled = false;
    return result;
  }
  ModesScope scope_;
};

// The device of the first input that is on one.
Device device_of(const TensorList& samples) {
  for (const Tensor& sample : samples)
    if (sample.defined() && sample.is_cuda()) return sample.device();
  return DeviceType::cuda;
}

}  // namespace

struct GraphedStep::State {
  Step step;
  int64_t warmup;
  Graph graph;
  TensorList inputs, outputs;  // in memory that the graph reads and writes

  State(Step body, const TensorList& samples, const GraphedOptions& options)
      : step(std::move(body)), warmup(options.warmup), graph(device_of(samples)) {
    const Unrecorded silent;
    for (const Tensor& sample : samples) {
      check(sample.defined(), "graphed: sample number ", inputs.size(), " is undefined");
      check(!sample.requires_grad(), "graphed: sample number ", inputs.size(),
            " requires grad; a step computes gradients of tensors that it captures, not of its "
            "inputs");
      inputs.push_back(sample.to(graph.device()).clone());
    }
  }

  void take(const TensorList& given) {
    check(given.size() == inputs.size(), "graphed: expected ", inputs.size(), " inputs, got ",
          given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      check(given[i].defined(), "graphed: input ", i, " is undefined");
      check(given[i].sizes() == inputs[i].sizes() && given[i].dtype() == inputs[i].dtype(),
            "graphed: input ", i, " must be as the sample, ", inputs[i].dtype(), " of shape ",
            inputs[i].sizes(), ", got ", given[i].dtype(), " of shape ", given[i].sizes(),
            "; a graph has fixed shapes: leave out a smaller last batch, or make another graphed "
            "step for it");
    }
    const Unrecorded silent;
    for (size_t i = 0; i < given.size(); ++i) inputs[i].copy_(given[i]);
  }

  TensorList run_step() const {
    TensorList results = step(inputs);
    for (Tensor& result : results) {
      check(result.defined(), "graphed: the step returned an undefined tensor");
      check(result.is_cuda(), "graphed: the step returned a tensor on ", result.device(),
            "; expected one on ", graph.device());
      result = result.detach();
    }
    return results;
  }

  // Memory of the eager calls is released first: the graph needs as much once more.
  void record() {
    empty_cache(graph.device());
    graph.capture([&] { outputs = run_step(); });
  }
};

GraphedStep::GraphedStep(Step step, const TensorList& sample_inputs, const GraphedOptions& options)
    : state_((check(options.warmup >= 1, "graphed: expected a warmup of at least 1, got ",
                    options.warmup, "; the first step makes what the recorded one must find"),
              std::make_unique<State>(std::move(step), sample_inputs, options))) {}
GraphedStep::~GraphedStep() = default;
GraphedStep::GraphedStep(GraphedStep&&) noexcept = default;
GraphedStep& GraphedStep::operator=(GraphedStep&&) noexcept = default;

bool GraphedStep::is_recorded() const { return state_->graph.is_recorded(); }
size_t GraphedStep::node_count() const { return state_->graph.node_count(); }

TensorList GraphedStep::operator()(const TensorList& inputs) {
  State& state = *state_;
  state.take(inputs);
  if (state.warmup > 0) {
    TensorList results = state.run_step();
    --state.warmup;  // a step that threw does not count
    return results;
  }
  if (!state.graph.is_recorded()) state.record();
  state.graph.replay();
  const Unrecorded silent;
  TensorList results;
  for (const Tensor& output : state.outputs) results.push_back(output.clone());
  return results;
}

}  // namespace tensora::cuda

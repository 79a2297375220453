#pragma once

// Internal header of `tensora scale`: the training step of one rank as a list of ops and
// collectives.

#include <string>
#include <string_view>
#include <vector>

#include "tensora/distributed/scale.h"

namespace tensora::distributed {

enum class ScaleWork : uint8_t { product, attention, memory };

/// One thing that a rank does in a step.
struct StepEvent {
  enum class Kind : uint8_t { op, call, wait };
  Kind kind = Kind::op;
  ScaleWork work = ScaleWork::memory;
  double amount = 0;  // of an op: FLOP, or bytes if it is bound by memory
  int call = -1;      // of a call and a wait: its number in `calls`
};

struct StepCall {
  std::string group;  // "dp" or "tp"
  CollectiveKind kind;
  double bytes;  // of the largest tensor of a rank
};

/// What a pipeline stage does with one micro-batch, and at the end of the step.
struct StageTrace {
  std::vector<StepCall> calls;
  std::vector<StepEvent> forward, backward;
  std::vector<StepEvent> last_forward, last_backward;  // of the last micro-batch: with gradients
  std::vector<StepEvent> update;                       // the collectives of the optimizer's step
  double forward_flops = 0;
  double parameters = 0;      // of this rank's tensor-parallel part, before ZeRO divides them
  double kept_bytes = 0;      // of activations, from forward to backward
  double peak_bytes = 0;      // that the step has beside parameters and the optimizer's state
  double boundary_bytes = 0;  // of the activations that go to the next stage
  size_t ops = 0;
};

/// Where a stage is: it has the embedding, or the head, or neither.
struct StageRole {
  bool first = true, last = true;
  int64_t layers = 0;

  auto operator<=>(const StageRole&) const = default;
};

/// Runs the stage's forward, backward and update on meta tensors, with data_parallel over fake
/// groups, and writes down what happens.
/// There are two data-parallel ranks at most: which calls are made, and their bytes, do not depend
/// on their number.
StageTrace trace_stage(const ScaleJob& job, const ScaleLayout& layout, StageRole role);
/// What the optimizer reads and writes in a step.
double update_bytes(const ScaleJob& job, const ScaleLayout& layout, const StageTrace& trace);
/// `peak_bytes` with the gradients of the layout.
double step_peak_bytes(const ScaleJob& job, const ScaleLayout& layout, const StageTrace& trace);

}  // namespace tensora::distributed

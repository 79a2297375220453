#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::distributed {

/// What a rank of a pipeline does next. `backward` computes all gradients of a stage;
/// `backward_input` only that of its input, which the stage before waits for, and
/// `backward_weight` the rest.
enum class PipelineActionKind : uint8_t { forward, backward, backward_input, backward_weight };
std::string_view name(PipelineActionKind kind);

struct PipelineAction {
  PipelineActionKind kind = PipelineActionKind::forward;
  int stage = 0;        // of the whole pipeline
  int micro_batch = 0;  // of the step

  bool operator==(const PipelineAction&) const = default;
};

/// A training step of a pipeline as a table: for each rank its actions, in order. Stage s runs on
/// rank s % ranks. Schedules are data, so they can be checked, drawn, run and timed.
struct PipelineSchedule {
  std::string name;
  int ranks = 1;
  int stages_per_rank = 1;
  int micro_batches = 1;
  std::vector<std::vector<PipelineAction>> actions;  // by rank

  int stages() const { return ranks * stages_per_rank; }
  int rank_of(int stage) const { return stage % ranks; }
  /// A line per rank: "F0 F1 B0 …", with the stage where a rank has several.
  std::string table() const;
};

/// "gpipe": all forwards, then all backwards.
/// "1f1b": forward and backward take turns, so that rank r keeps ranks - r micro-batches at most.
/// "interleaved": 1f1b with several stages per rank; the number of micro-batches must be a multiple
/// of the ranks. The idle time is divided by `stages_per_rank`.
/// "zero-bubble": 1f1b with the weights' gradients apart; they fill the idle time.
PipelineSchedule make_pipeline_schedule(std::string_view name, int ranks, int micro_batches,
                                        int stages_per_rank = 1);

/// What a schedule needs and how long it takes if forward, backward_input and backward_weight take
/// a time of 1 each (backward: 2) and messages none.
struct PipelineCheck {
  std::vector<int> kept;  // by rank: the most forwards whose backward has not ended
  double time = 0;
  double idle = 0;  // the share of the time in which the mean rank has nothing to do
};

/// Throws unless every stage has each micro-batch's forward and backward exactly once, with
/// gradients in the order of micro-batches (which makes the sums of a step those of one process),
/// and the actions can be performed in the order given: no rank waits for a message that is sent
/// later.
PipelineCheck check_pipeline_schedule(const PipelineSchedule& schedule);

}  // namespace tensora::distributed

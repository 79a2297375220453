#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensora/core/process_group.h"
#include "tensora/core/tensor.h"
#include "tensora/distributed/data_parallel.h"
#include "tensora/distributed/pipeline_schedule.h"

namespace tensora::distributed {

struct PipelineOptions {
  std::shared_ptr<ProcessGroup> group = nullptr;  // the ranks of the pipeline; null: the world
  std::string schedule = "1f1b";                  // see make_pipeline_schedule
  int micro_batches = 1;
};

/// Trains a model whose layers are divided among the ranks of a group. Stage s of the model is on
/// rank s % ranks; micro-batches pass through the stages, and their gradients back.
///
///   distributed::Pipeline pipeline({stage}, {.schedule = "1f1b", .micro_batches = 8});
///   Tensor losses = pipeline.step(tokens, [&](const Tensor& logits, int i) {
///     return cross_entropy(logits, targets[i]) / 8;
///   });
///   optimizer.step();
///
/// A step leaves in the parameters' gradients what one process has that calls backward for the
/// micro-batches one after the other, with the same bits in deterministic mode on the CPU: a
/// schedule that has another order of gradients is refused.
class Pipeline {
 public:
  /// Takes one tensor and returns one. Called once for each micro-batch and, unless the input has
  /// no gradient, differentiated by it.
  using Stage = std::function<Tensor(const Tensor& input)>;
  /// The loss of a micro-batch, from the output of the last stage.
  using Loss = std::function<Tensor(const Tensor& output, int micro_batch)>;

  /// `stages`: those of this rank, number rank, rank + ranks, … of the model. All ranks make one,
  /// with as many stages and the same options.
  Pipeline(std::vector<Stage> stages, PipelineOptions options);

  /// Forward and backward of all micro-batches. `input`: read on the first rank, and cut along dim
  /// 0. `loss`: called on the last rank. Returns the losses there, an undefined tensor elsewhere.
  /// With `parallel`, which has this rank's parameters, gradients are averaged over its group in
  /// the last backward.
  Tensor step(const Tensor& input, const Loss& loss, DataParallel* parallel = nullptr);

  const PipelineSchedule& schedule() const { return schedule_; }

 private:
  class Run;
  void check_agreement() const;

  std::vector<Stage> stages_;
  std::shared_ptr<ProcessGroup> group_;
  // Activations and gradients travel in groups of their own, so that none waits behind the other.
  std::shared_ptr<ProcessGroup> forwards_, backwards_;
  PipelineSchedule schedule_;
};

}  // namespace tensora::distributed

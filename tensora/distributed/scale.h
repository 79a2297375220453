#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/distributed/scale_machine.h"
#include "tensora/models/llama_config.h"

namespace tensora::distributed {

/// How the ranks of a job divide the work. Ranks of a tensor-parallel group are neighbours, then
/// come the data-parallel ones, then the stages of the pipeline.
struct ScaleLayout {
  int data = 1, tensor = 1, pipeline = 1;
  int zero_stage = 0;
  std::string schedule = "1f1b";  // see make_pipeline_schedule
  int stages_per_rank = 1;        // of the schedule interleaved

  int ranks() const { return data * tensor * pipeline; }
  std::string text() const;  // "tp=8,pp=12,dp=48,zero1,interleaved=8"
  /// Words separated by commas: dp, zero1, zero2, zero3, tp=N, pp=N, gpipe, 1f1b, interleaved=V,
  /// zero-bubble. The data-parallel ranks are those that tp and pp leave of `ranks`; dp=N checks
  /// that.
  static ScaleLayout parse(std::string_view text, int ranks);
};

/// What is trained.
struct ScaleJob {
  models::LLaMAConfig model;
  int64_t context = 2048;    // tokens of a sequence
  int64_t micro_batch = 1;   // sequences
  int64_t accumulation = 1;  // micro-batches of a rank in a step, unless global_batch is given
  int64_t global_batch = 0;  // sequences of all ranks in a step; 0: as many as the rest says
  bool recompute = false;    // blocks keep their inputs only and are computed again in backward
  /// zero1 and zero2: the new parameters are gathered beside the next forward, as Megatron-LM does;
  /// otherwise before it, as data_parallel does.
  bool overlap_gather = false;
  DType dtype = kBFloat16;     // of parameters and activations
  DType gradients = kFloat32;  // in which gradients are kept and reduced
  /// Micro-batches that each rank computes in a step.
  int64_t micro_batches(const ScaleLayout& layout) const;
  double tokens_per_step(const ScaleLayout& layout) const;
};

/// "llama-3-8b", "llama-3-70b", "llama-3-405b", "gpt3-175b" (a LLaMA of GPT-3's depth, width and
/// number of parameters), or a preset of LLaMAConfig.
models::LLaMAConfig scale_model(const std::string& name);

struct ScalePrediction {
  ScaleLayout layout;
  double seconds = 0;            // of a step
  double tokens_per_second = 0;  // of all ranks
  double low = 0, high = 0;      // the interval of tokens_per_second
  double mfu = 0;                // model FLOP (forward and twice that) per second over the peak
  // Parts of `seconds`; what is left is computation.
  double exposed_data = 0, exposed_tensor = 0;  // waiting for collectives
  double bubble = 0;                            // idle time and messages of the pipeline
  double straggling = 0;                        // waiting for the slowest rank
  double communication = 0;                     // all collectives of a rank, hidden or not
  // Bytes of the rank that needs most.
  double parameters = 0, optimizer = 0, activations = 0;  // the last with gradients and buffers
  double memory() const { return parameters + optimizer + activations; }
  bool fits = false;
  double goodput = 1;              // the share of the time that failures and checkpoints leave
  double checkpoint_interval = 0;  // seconds between checkpoints, the best one; 0: no failures
  size_t traced_ops = 0;
};

/// Predicts the training step of a job on a machine: the step is traced on meta tensors over fake
/// groups, and its ops and collectives are timed by the machine's rates and links in an event
/// simulation with one stream for computation and one for each group.
class ScaleModel {
 public:
  ScaleModel(ScaleJob job, ScaleMachine machine);
  ~ScaleModel();
  ScaleModel(const ScaleModel&) = delete;
  ScaleModel& operator=(const ScaleModel&) = delete;

  /// Fits the rates of computation to a measured throughput, in tokens per second of all ranks.
  void calibrate(const ScaleLayout& layout, double tokens_per_second);
  ScalePrediction predict(const ScaleLayout& layout);
  /// All layouts of so many ranks that divide the model evenly, with the fastest that fit first.
  std::vector<ScalePrediction> search(int ranks);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensora::distributed

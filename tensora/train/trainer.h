#pragma once

#include <cmath>
#include <memory>
#include <optional>

#include "tensora/io/state.h"
#include "tensora/nn/module.h"
#include "tensora/optim/optimizer.h"
#include "tensora/train/run_logger.h"

namespace tensora::amp {
class GradScaler;
}

namespace tensora::io {
class CheckpointManager;
}

namespace tensora::train {

class Parallel;
struct MicroBatch;
class ProgressBar;
class RunLock;

struct TrainerOptions {
  std::string folder;    // logs and, in checkpoints/, checkpoints
  int64_t steps = 1000;  // of the optimizer, from the beginning of the run
  int64_t grad_accum = 1;
  double clip_norm = 1;           // of the gradients; 0: not clipped
  std::optional<DType> amp = {};  // bfloat16 or float16: autocast
  // Every so many steps; 0: never, but for a checkpoint, which is written at the end.
  int64_t validate_every = 0, sample_every = 0, checkpoint_every = 0;
  int keep_checkpoints = 3;
  /// Go on after the newest usable checkpoint in the folder, or start if there is none; logs that
  /// belong to no checkpoint are moved to FOLDER/old-logs-N. What was not as expected is printed.
  bool resume = false;
  /// The folder's lock, if the caller holds it already; otherwise `run` takes it.
  const RunLock* lock = nullptr;
  /// The ranks that train together, each with parts of its own; null: this process alone. The first
  /// rank writes the logs and prints, all of them write checkpoints.
  Parallel* parallel = nullptr;
  bool find_nan = false;       // stop where the loss is not finite, and name the op that made it so
  std::string unit = "step";   // of the progress bar: what a step counts as
  int64_t units_per_step = 1;  // for the rate in the logs: tokens, images
};

/// What a run trains. Steps count from 1.
struct TrainerTask {
  /// The mean loss of part `part` of a step's batch (there are grad_accum, times the ranks). Must
  /// depend on its arguments, the weights and the random generator alone, or on what `state` saves.
  std::function<Tensor(int64_t step, int64_t part)> loss;
  /// What `loss` computes its loss from; needed by ranks that are a pipeline.
  std::function<MicroBatch(int64_t step, int64_t part)> batch = nullptr;
  std::function<double(int64_t step)> learning_rate;
  /// Figures of data that is not trained on; the first of them decides which checkpoint is best.
  std::function<Scalars()> validate = nullptr;
  bool higher_is_better = false;
  /// Something to look at, such as a text that the model wrote.
  std::function<std::string()> sample = nullptr;
  /// Called when the checkpoint, if any, has been loaded, before anything is written: here a run
  /// writes its settings.
  std::function<void()> start = nullptr;
  /// Further state that a checkpoint holds, such as the position in the data.
  std::function<Value()> save = nullptr;
  std::function<void(const Value&)> load = nullptr;
};

struct TrainerOutcome {
  int64_t step = 0;  // the last one
  bool interrupted = false;
  int signal = 0;                    // that interrupted it: SIGINT, SIGTERM or SIGHUP
  double loss = NAN;                 // of the last step; NaN where none was left to do
  std::optional<double> validation;  // the last first figure of `validate`
};

/// The loop: steps, logs, validation, samples, checkpoints, progress, a clean end on SIGINT,
/// SIGTERM and SIGHUP. A run that was stopped, or killed, and resumed gives the losses of one that
/// was not, bit for bit. While it runs it holds the lock of its folder.
class Trainer {
 public:
  Trainer(nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options, TrainerTask task);
  ~Trainer();

  TrainerOutcome run();

 private:
  bool is_first() const;
  bool is_stop_requested() const;
  int64_t restore();
  int64_t restore_ranks();
  void open_logs(int64_t first);
  void step(int64_t step);
  Tensor gradients_of(int64_t step);
  Tensor pass_through_ranks(int64_t step);
  Tensor loss_of(int64_t step, int64_t part);
  void name_the_op(int64_t step, int64_t part, bool is_nan);
  void note_losses(ProgressBar& bar);
  void look(int64_t step, ProgressBar& bar);
  void look_now(int64_t step, ProgressBar& bar, bool validate, bool sample);
  void save(int64_t step);
  bool is_due(int64_t step, int64_t every) const { return every > 0 && step % every == 0; }

  nn::Module& model_;
  optim::Optimizer& optimizer_;
  TrainerOptions options_;
  TrainerTask task_;
  std::unique_ptr<RunLogger> log_;
  std::unique_ptr<amp::GradScaler> scaler_;
  std::unique_ptr<io::CheckpointManager> checkpoints_;
  struct Pending {
    int64_t step;
    double learning_rate;
    Tensor loss, norm;
  };
  std::vector<Pending> pending_;  // losses that the device may not have computed yet
  std::optional<double> validated_;
  int64_t validated_at_ = -1;
  uint64_t seed_ = 0;                 // of the run, for what ranks draw
  std::vector<std::string> notices_;  // to be printed above the progress bar
  TrainerOutcome outcome_;
};

/// From 0 up to `peak` in `warmup` steps, then down to `floor` along half a cosine.
double warmup_cosine(int64_t step, int64_t steps, int64_t warmup, double peak, double floor);

}  // namespace tensora::train

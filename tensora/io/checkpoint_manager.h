#pragma once

#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tensora/io/pytorch.h"

namespace tensora::io {

struct CheckpointOptions {
  int keep_last = 3;              // 0 keeps all
  bool keep_best = true;          // the best one too, of those that are saved with a metric
  bool higher_is_better = false;  // whether the metric is an accuracy and not a loss
  bool background = false;        // writes while the run goes on
};

/// The state of a run at a step.
struct Checkpoint {
  int64_t step = 0;
  std::optional<double> metric;
  Value state;
  std::string path;
  std::vector<std::string> skipped;  // why newer files could not be used; empty as a rule
};

/// The checkpoints of one run, in a folder of their own: `step-000000001000.pt`, …, and `best.pt`.
/// Each is written atomically and made durable before an older one is removed, so a run that is
/// killed at any moment finds its last complete checkpoint. A state is any Value: of the model, the
/// optimizer, the scheduler, the scaler, the random numbers (`default_generator().get_state()`) and
/// the position in the data. PyTorch can load the files.
///
/// To be used from one thread. In the background, `save` copies the tensors and returns while a
/// thread writes; what goes wrong there is thrown by the next call. The destructor waits for the
/// last one, but cannot throw: call `wait` first to know that it was written.
class CheckpointManager {
 public:
  explicit CheckpointManager(std::string folder, const CheckpointOptions& options = {});
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  /// Saves the state of a step; a checkpoint of the same step is replaced. Older ones are removed
  /// as the options say. Those of later steps stay, and stay the latest: a run that starts again
  /// from an earlier step belongs into another folder.
  void save(int64_t step, const Value& state, std::optional<double> metric = {});
  /// Waits until everything is written.
  void wait();

  /// The newest checkpoint that is complete and undamaged; none if there is none at all. Throws if
  /// there are some but none of them is usable.
  std::optional<Checkpoint> latest(const LoadOptions& options = {});
  /// The one with the best metric, if one was saved with a metric.
  std::optional<Checkpoint> best(const LoadOptions& options = {});
  /// The steps of the checkpoints in the folder, ascending.
  std::vector<int64_t> steps();
  std::string path_of(int64_t step) const;

 private:
  void write(int64_t step, const Value& contents, std::optional<double> metric);
  void keep_if_best(int64_t step, double metric);
  void remove_old(int64_t newest) const;
  std::vector<int64_t> listed_steps() const;
  std::string best_path() const { return folder_ + "/best.pt"; }

  std::string folder_;
  CheckpointOptions options_;
  std::optional<double> best_metric_;
  std::thread writer_;
  std::exception_ptr error_;  // of the writer; read after it has ended
};

}  // namespace tensora::io

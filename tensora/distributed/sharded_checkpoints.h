#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tensora/distributed/data_parallel.h"
#include "tensora/distributed/tensor_parallel.h"

namespace tensora::distributed {

/// Checkpoints that the ranks of a run write together, in a folder that all of them reach:
///
///   FOLDER/step-000000001000/rank-0-of-4.safetensors   the parts that rank 0 has, or 1/4 of what
///                                                      all have; likewise the other ranks
///   FOLDER/step-000000001000/state.pt                  the optimizer's options and what was added
///   FOLDER/step-000000001000/index.json                which parts of which tensor are where
///
/// The index is written last, under another name and renamed: a checkpoint without it does not
/// count, so a run that is killed at any moment finds its last complete one. Index and pieces have
/// checksums. Nothing in a
/// checkpoint depends on the number of ranks, on the ZeRO stage or on how a TensorParallel divided
/// the model: any other number and stage can go on from it, with the same bits.
class ShardedCheckpoints {
 public:
  /// Keeps the newest `keep_last` checkpoints; 0: all.
  explicit ShardedCheckpoints(std::string folder, int keep_last = 3);
  ShardedCheckpoints(const ShardedCheckpoints&) = delete;
  ShardedCheckpoints& operator=(const ShardedCheckpoints&) = delete;

  /// Saves the model (parameters and persistent buffers), the optimizer and `extra`, which is the
  /// same on all ranks. All ranks must call it; it returns when the checkpoint is complete. Where
  /// `tensor` has divided the model, `parallel` is of the ranks with the same part, at stage 0.
  void save(int64_t step, const nn::Module& model, DataParallel& parallel,
            const optim::Optimizer& optimizer, const Value& extra = {},
            const TensorParallel* tensor = nullptr);
  /// The same, but returns when the tensors are copied, and a thread writes them. The checkpoint
  /// counts when all ranks have written theirs. What goes wrong is thrown by the next call of
  /// `save`, `save_in_background` or `wait`; the destructor waits, but cannot throw.
  void save_in_background(int64_t step, const nn::Module& model, DataParallel& parallel,
                          const optim::Optimizer& optimizer, const Value& extra = {},
                          const TensorParallel* tensor = nullptr);
  /// Waits until this rank's part of the last save is over.
  void wait();

  struct Loaded {
    int64_t step = 0;
    Value extra;
    std::string path;
    std::vector<std::string> skipped;  // why newer checkpoints could not be used; empty as a rule
  };
  /// Loads the newest checkpoint that is complete and undamaged on all ranks; none if there is none
  /// at all. Throws if there are some and none is usable, or if it is of another model or
  /// optimizer; the model and the optimizer are unchanged then. All ranks must call it.
  std::optional<Loaded> load_latest(nn::Module& model, DataParallel& parallel,
                                    optim::Optimizer& optimizer,
                                    const TensorParallel* tensor = nullptr) const;

  /// The steps of the complete checkpoints, ascending.
  std::vector<int64_t> steps() const;
  std::string path_of(int64_t step) const;

 private:
  struct Contents;
  Contents collect(int64_t step, const nn::Module& model, DataParallel& parallel,
                   const optim::Optimizer& optimizer, const Value& extra,
                   const TensorParallel* tensor) const;
  void write(const Contents& contents, ProcessGroup& group) const;
  void remove_old(int64_t newest) const;

  std::string folder_;
  int keep_last_;
  std::shared_ptr<ProcessGroup> background_;  // a group of its own for the thread's calls
  std::exception_ptr error_;                  // of the thread
  std::jthread thread_;
};

}  // namespace tensora::distributed

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/io/state.h"
#include "tensora/nn/module.h"
#include "tensora/optim/optimizer.h"

namespace tensora::train {

/// What a step computes at once.
struct MicroBatch {
  Tensor inputs, targets;
};

/// What a training run does together with other processes, its ranks. Implemented by
/// distributed::TrainingRanks in libtensora_distributed. All ranks make the same calls in the same
/// order.
class Parallel {
 public:
  virtual ~Parallel() = default;
  /// Of those that compute micro-batches of their own, the number of this one.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Whether this process writes the logs.
  virtual bool is_first() const { return rank() == 0; }

  /// Before the first step and before a checkpoint is loaded.
  virtual void attach(nn::Module& model, optim::Optimizer& optimizer) = 0;
  /// Backward of one micro-batch; `last`: of the step, so that the gradients are to be averaged.
  virtual void backward(const Tensor& loss, bool last) = 0;
  /// Whether the ranks divide the model's layers: all micro-batches of a step go through them
  /// together, by `pass` instead of `backward`.
  virtual bool is_pipeline() const { return false; }
  /// Forward and backward of a step's micro-batches, which are the same on all ranks. Returns their
  /// mean loss.
  virtual Tensor pass(const std::vector<MicroBatch>& /*batches*/) {
    fail("train: these ranks are no pipeline");
  }
  virtual Tensor clip_grad_norm_(double max_norm) = 0;
  /// If a gradient is infinite on one rank, it is on all.
  virtual void share_overflow() = 0;

  /// The mean of a number over the ranks.
  virtual Tensor mean(const Tensor& number) = 0;
  /// Whether it is true on some rank.
  virtual bool any(bool value) = 0;
  /// Calls `body` while every rank has all parameters.
  virtual void with_whole_parameters(const std::function<void()>& body) = 0;
  /// Calls `body`, which computes the model on all ranks without gradients.
  virtual void evaluate(const std::function<void()>& body) { with_whole_parameters(body); }

  /// The model, the optimizer and `extra`, in FOLDER.
  virtual void save(const std::string& folder, int64_t step, int keep_last, const Value& extra) = 0;
  /// The step and the `extra` of the newest complete checkpoint, which is loaded.
  virtual std::optional<std::pair<int64_t, Value>> restore(const std::string& folder) = 0;
};

}  // namespace tensora::train

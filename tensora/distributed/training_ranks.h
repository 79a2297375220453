#pragma once

#include <memory>

#include "tensora/distributed/data_parallel.h"
#include "tensora/distributed/tensor_parallel.h"
#include "tensora/train/parallel.h"

namespace tensora::distributed {

/// Ranks that have one model together; see TensorParallel.
struct TensorRanks {
  int count = 1;  // that follow each other in the world
  bool sequence_parallel = false;
};

/// Lets a train::Trainer run on all ranks of a group: every rank computes micro-batches of its own,
/// rank 0 writes the logs, all write the checkpoints (see ShardedCheckpoints). Where several ranks
/// have one model together, these compute the same micro-batches; that goes with the world as the
/// group and with ZeRO stage 0.
class TrainingRanks final : public train::Parallel {
 public:
  explicit TrainingRanks(DataParallelOptions options = {}, TensorRanks tensor = {});
  ~TrainingRanks() override;

  int rank() const override { return options_.group->rank(); }
  int size() const override { return options_.group->size(); }
  bool is_first() const override { return all_->rank() == 0; }
  void attach(nn::Module& model, optim::Optimizer& optimizer) override;
  void backward(const Tensor& loss, bool last) override;
  Tensor clip_grad_norm_(double max_norm) override;
  void share_overflow() override;
  Tensor mean(const Tensor& number) override;
  bool any(bool value) override;
  void with_whole_parameters(const std::function<void()>& body) override;
  void evaluate(const std::function<void()>& body) override;
  void save(const std::string& folder, int64_t step, int keep_last, const Value& extra) override;
  std::optional<std::pair<int64_t, Value>> restore(const std::string& folder) override;

  /// After `attach`.
  DataParallel& parallel() const { return *parallel_; }

 private:
  std::shared_ptr<ProcessGroup> all_;
  DataParallelOptions options_;
  TensorRanks tensor_ranks_;
  std::shared_ptr<ProcessGroup> tensor_group_;  // null: every rank has the whole model
  nn::Module* model_ = nullptr;
  optim::Optimizer* optimizer_ = nullptr;
  std::unique_ptr<TensorParallel> tensor_;
  std::unique_ptr<DataParallel> parallel_;
};

}  // namespace tensora::distributed

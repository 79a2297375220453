#pragma once

#include <memory>

#include "tensora/distributed/data_parallel.h"
#include "tensora/train/parallel.h"

namespace tensora::distributed {

/// Lets a train::Trainer run on all ranks of a group: every rank computes micro-batches of its own,
/// rank 0 writes the logs, all write the checkpoints (see ShardedCheckpoints).
class TrainingRanks final : public train::Parallel {
 public:
  explicit TrainingRanks(DataParallelOptions options = {});
  ~TrainingRanks() override;

  int rank() const override { return options_.group->rank(); }
  int size() const override { return options_.group->size(); }
  void attach(nn::Module& model, optim::Optimizer& optimizer) override;
  void backward(const Tensor& loss, bool last) override;
  Tensor clip_grad_norm_(double max_norm) override;
  void share_overflow() override;
  Tensor mean(const Tensor& number) override;
  bool any(bool value) override;
  void with_whole_parameters(const std::function<void()>& body) override;
  void save(const std::string& folder, int64_t step, int keep_last, const Value& extra) override;
  std::optional<std::pair<int64_t, Value>> restore(const std::string& folder) override;

  /// After `attach`.
  DataParallel& parallel() const { return *parallel_; }

 private:
  DataParallelOptions options_;
  nn::Module* model_ = nullptr;
  optim::Optimizer* optimizer_ = nullptr;
  std::unique_ptr<DataParallel> parallel_;
};

}  // namespace tensora::distributed

#pragma once

#include <memory>

#include "tensora/distributed/pipeline.h"
#include "tensora/models/llama.h"
#include "tensora/train/parallel.h"

namespace tensora::distributed {

/// Lets a train::Trainer train a models::LLaMA whose layers are divided among the ranks of a group:
/// gradients, activations and the optimizer's state of a layer are on one rank. The micro-batches
/// of a step pass through the ranks. A tied embedding is on the first and the last rank, which add
/// their gradients. Where no embedding is tied and gradients are not clipped, the model has the
/// bits of one process that accumulates the micro-batches, in deterministic mode on the CPU.
///
/// The rank that writes a checkpoint needs everything: for it, and for validation, the parameters
/// are sent to all ranks, and for checkpoints the optimizer's state too.
class PipelineRanks final : public train::Parallel {
 public:
  /// `schedule`: gpipe, 1f1b or zero-bubble.
  explicit PipelineRanks(std::string schedule = "1f1b",
                         std::shared_ptr<ProcessGroup> group = nullptr);
  ~PipelineRanks() override;

  // All ranks compute the same micro-batches.
  int rank() const override { return 0; }
  int size() const override { return 1; }
  bool is_first() const override { return group_->rank() == 0; }
  void attach(nn::Module& model, optim::Optimizer& optimizer) override;
  void backward(const Tensor& loss, bool last) override;
  bool is_pipeline() const override { return true; }
  Tensor pass(const std::vector<train::MicroBatch>& batches) override;
  Tensor clip_grad_norm_(double max_norm) override;
  void share_overflow() override;
  Tensor mean(const Tensor& number) override { return number; }
  bool any(bool value) override;
  void with_whole_parameters(const std::function<void()>& body) override;
  void save(const std::string& folder, int64_t step, int keep_last, const Value& extra) override;
  std::optional<std::pair<int64_t, Value>> restore(const std::string& folder) override;

 private:
  struct Owned {
    Tensor parameter;
    int owner;  // the first rank that computes with it
  };
  bool is_last() const { return group_->rank() + 1 == group_->size(); }
  bool is_tied() const { return group_->size() > 1 && !model_->lm_head; }
  Tensor stage(const Tensor& input) const;
  void add_tied_gradients() const;
  void share_parameters() const;
  void share_state() const;

  std::string schedule_;
  std::shared_ptr<ProcessGroup> group_, ends_;  // ends_: of the first and the last rank
  models::LLaMA* model_ = nullptr;
  optim::Optimizer* optimizer_ = nullptr;
  int64_t first_layer_ = 0, end_layer_ = 0;
  std::vector<Owned> parameters_;
  std::unique_ptr<Pipeline> pipeline_;  // of the last step's number of micro-batches
};

}  // namespace tensora::distributed

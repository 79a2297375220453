#pragma once

#include <memory>

#include "tensora/core/process_group.h"
#include "tensora/nn/batch_norm.h"

namespace tensora::distributed {

/// Batch normalisation over the batches of all ranks: in training the mean and the variance are
/// those of all of their examples, as one process would compute them. Names of parameters and
/// buffers are BatchNorm's, so that their state_dicts fit. The input has any number of dims from 2
/// on; ranks may have different batch sizes, also none.
class SyncBatchNorm : public nn::NormBase<SyncBatchNorm> {
 public:
  /// `group`: null for the world.
  explicit SyncBatchNorm(int64_t num_features, const nn::BatchNormOptions& options = {},
                         std::shared_ptr<ProcessGroup> group = nullptr);
  Tensor forward(const Tensor& input) const;
  std::string name() const override { return "SyncBatchNorm"; }

 private:
  std::shared_ptr<ProcessGroup> group_;
};

}  // namespace tensora::distributed

#pragma once

#include "tensora/data/sampler.h"

namespace tensora::distributed {

struct PartitionSamplerOptions {
  bool shuffle = true;
  uint64_t seed = 0;  // the same on all ranks
};

/// This rank's share of the examples: of one order that all ranks compute alike from the seed and
/// the epoch, positions rank, rank + ranks, rank + 2 ranks, … Every example is in exactly one
/// share, none twice, so that figures of an evaluation do not depend on the number of ranks. Shares
/// may differ by one example: DataParallel::join takes care of that in training.
class PartitionSampler final : public data::Sampler {
 public:
  PartitionSampler(int64_t size, int rank, int ranks, PartitionSamplerOptions options = {});
  std::vector<int64_t> indices(int64_t epoch, Generator& generator) const override;
  int64_t size() const override { return (count_ - rank_ + ranks_ - 1) / ranks_; }

 private:
  int64_t count_, rank_, ranks_;
  PartitionSamplerOptions options_;
};

}  // namespace tensora::distributed

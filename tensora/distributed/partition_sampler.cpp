#include "tensora/distributed/partition_sampler.h"

#include "tensora/base/check.h"

namespace tensora::distributed {

PartitionSampler::PartitionSampler(int64_t size, int rank, int ranks,
                                   PartitionSamplerOptions options)
    : count_(size), rank_(rank), ranks_(ranks), options_(options) {
  check(size >= 0, "PartitionSampler: size must not be negative, got ", size);
  check(ranks >= 1 && rank >= 0 && rank < ranks, "PartitionSampler: rank must be in [0, ", ranks,
        "), got ", rank);
}

std::vector<int64_t> PartitionSampler::indices(int64_t epoch, Generator&) const {
  std::vector<int64_t> order;
  if (options_.shuffle && count_ > 0) {
    Generator common(options_.seed + static_cast<uint64_t>(epoch) * 0x9E3779B97F4A7C15u);
    order = data::RandomSampler(count_).indices(epoch, common);
  } else {
    for (int64_t i = 0; i < count_; ++i) order.push_back(i);
  }
  std::vector<int64_t> own;
  for (int64_t i = rank_; i < count_; i += ranks_) own.push_back(order[static_cast<size_t>(i)]);
  return own;
}

}  // namespace tensora::distributed

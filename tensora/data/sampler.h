#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensora/core/random.h"

namespace tensora::data {

/// Decides which examples an epoch has, and in which order. A sampler has no state: the order of an
/// epoch follows from the generator, which the loader derives from its seed and the epoch. So an
/// epoch can be prepared ahead, and a run can be resumed in the middle of one.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// The indices of the epoch.
  virtual std::vector<int64_t> indices(int64_t epoch, Generator& generator) const = 0;
  /// How many there are.
  virtual int64_t size() const = 0;
};

/// 0, 1, 2, …
class SequentialSampler final : public Sampler {
 public:
  explicit SequentialSampler(int64_t size);
  std::vector<int64_t> indices(int64_t epoch, Generator& generator) const override;
  int64_t size() const override { return size_; }

 private:
  int64_t size_;
};

struct RandomSamplerOptions {
  bool replacement = false;
  int64_t num_samples = 0;  // 0: as many as there are examples
};

/// A new order every epoch. Without replacement every example comes once before any comes again.
class RandomSampler final : public Sampler {
 public:
  explicit RandomSampler(int64_t size, RandomSamplerOptions options = {});
  std::vector<int64_t> indices(int64_t epoch, Generator& generator) const override;
  int64_t size() const override { return options_.num_samples; }

 private:
  int64_t count_;
  RandomSamplerOptions options_;
};

struct WeightedRandomSamplerOptions {
  bool replacement = true;
};

/// Draws `num_samples` examples, each with a probability proportional to its weight.
class WeightedRandomSampler final : public Sampler {
 public:
  WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                        WeightedRandomSamplerOptions options = {});
  std::vector<int64_t> indices(int64_t epoch, Generator& generator) const override;
  int64_t size() const override { return num_samples_; }

 private:
  std::vector<double> weights_;
  int64_t num_samples_;
  WeightedRandomSamplerOptions options_;
};

struct DistributedSamplerOptions {
  int64_t num_replicas = 1;
  int64_t rank = 0;
  bool shuffle = true;
  uint64_t seed = 0;  // must be the same in all processes
  bool drop_last = false;
};

/// The share of one process out of several that train together: of an order that all of them
/// compute alike from `seed` and the epoch, every num_replicas-th example from `rank` on. The order
/// is extended from its beginning to give every process equally many, or with `drop_last` cut off.
/// The epoch is the loader's; DataLoader::set_epoch sets it.
class DistributedSampler final : public Sampler {
 public:
  DistributedSampler(int64_t size, DistributedSamplerOptions options);
  std::vector<int64_t> indices(int64_t epoch, Generator& generator) const override;
  int64_t size() const override { return share_; }

 private:
  int64_t count_, share_;
  DistributedSamplerOptions options_;
};

/// The batches of an epoch: one list of indices, and where each batch ends in it.
struct BatchPlan {
  std::vector<int64_t> indices;
  std::vector<size_t> ends;

  size_t size() const { return ends.size(); }
  size_t begin_of(size_t batch) const { return batch == 0 ? 0 : ends[batch - 1]; }
  std::span<const int64_t> operator[](size_t batch) const {
    return std::span(indices).subspan(begin_of(batch), ends[batch] - begin_of(batch));
  }
  void push_back(std::span<const int64_t> batch);
};

struct BatchSamplerOptions {
  bool drop_last = false;
};

/// Groups what a sampler gives into batches. One of your own, which puts sequences of like length
/// together, say, derives from this and overrides `plan` and `size`.
class BatchSampler {
 public:
  BatchSampler(std::shared_ptr<const Sampler> sampler, int64_t batch_size,
               BatchSamplerOptions options = {});
  virtual ~BatchSampler() = default;
  virtual BatchPlan plan(int64_t epoch, Generator& generator) const;
  /// How many batches an epoch has.
  virtual int64_t size() const;

 protected:
  BatchSampler() = default;

 private:
  std::shared_ptr<const Sampler> sampler_;
  int64_t batch_size_ = 1;
  BatchSamplerOptions options_;
};

}  // namespace tensora::data

#pragma once

#include <optional>
#include <vector>

#include "tensora/data/dataset.h"
#include "tensora/data/sampler.h"

// What a DataLoader's batches are made of, in their order. Internal to the loader.

namespace tensora::data {

/// One batch to be made, or the end of an epoch.
struct BatchWork {
  int64_t epoch = 0;
  int64_t batch = 0;  // its number in the epoch
  bool end_of_epoch = false;
  uint64_t seed = 0;              // of the random numbers of this epoch's examples
  std::vector<int64_t> indices;   // of a data set's examples,
  uint64_t first_position = 0;    // the first of which has this place in the epoch;
  std::vector<Example> examples;  // or examples from a stream
};

/// Gives the work of epoch after epoch. Used by one thread at a time.
class BatchSource {
 public:
  explicit BatchSource(uint64_t seed) : seed_(seed) {}
  virtual ~BatchSource() = default;
  /// Fills in the next piece of work. If it throws, `work` still has its place, and the next call
  /// gives the work after it.
  virtual void take(BatchWork& work) = 0;
  /// Continues at another place.
  void seek(uint64_t seed, int64_t epoch, int64_t batch);

 protected:
  virtual void forget_epoch() = 0;
  void place(BatchWork& work) const;
  void finish_epoch(BatchWork& work);
  uint64_t epoch_seed() const;

  uint64_t seed_;
  int64_t epoch_ = 0, batch_ = 0;
};

/// Batches by a sampler's plan.
class PlannedSource final : public BatchSource {
 public:
  PlannedSource(std::shared_ptr<const BatchSampler> sampler, uint64_t seed);
  void take(BatchWork& work) override;

 private:
  void forget_epoch() override { plan_.reset(); }

  std::shared_ptr<const BatchSampler> sampler_;
  std::optional<BatchPlan> plan_;
};

/// Batches from a stream, read as they come.
class StreamedSource final : public BatchSource {
 public:
  StreamedSource(std::shared_ptr<const IterableDataset> dataset, int64_t batch_size, bool drop_last,
                 uint64_t seed);
  void take(BatchWork& work) override;

 private:
  void forget_epoch() override { stream_.reset(); }
  void open_stream();

  std::shared_ptr<const IterableDataset> dataset_;
  int64_t batch_size_;
  bool drop_last_;
  Generator generator_;
  std::unique_ptr<ExampleStream> stream_;
  bool ended_ = false;
};

}  // namespace tensora::data

#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "tensora/data/dataset.h"
#include "tensora/data/sampler.h"
#include "tensora/io/state.h"

namespace tensora::data {

/// Makes a batch of examples: `default_collate`, which stacks them, unless the user gives another.
/// Workers call it from several threads at once.
using Collate = std::function<Batch(const std::vector<Example>& examples)>;

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  /// The order of the examples; excludes `shuffle`.
  std::shared_ptr<const Sampler> sampler = nullptr;
  /// The batches themselves; excludes `batch_size`, `shuffle`, `sampler` and `drop_last`.
  std::shared_ptr<const BatchSampler> batch_sampler = nullptr;
  /// Threads that prepare batches ahead; 0: the caller's thread prepares each when it asks for it.
  int num_workers = 0;
  Collate collate_fn = nullptr;
  /// Batches in page-locked memory, from which a GPU copies by itself.
  bool pin_memory = false;
  /// Leaves out the last batch of an epoch where it is smaller than the others.
  bool drop_last = false;
  /// How many batches per worker are prepared ahead.
  int prefetch_factor = 2;
  /// Where batches are put. For a GPU, workers write them into page-locked memory, and the copy to
  /// the device is queued on the stream of the thread that asks for the batch.
  Device device = DeviceType::cpu;
  /// Determines the order of examples and their random numbers; without one, a number drawn from
  /// this thread's generator.
  std::optional<uint64_t> seed = std::nullopt;
};

/// Batches of a data set, epoch after epoch:
///
///   DataLoader loader(dataset, {.batch_size = 64, .shuffle = true, .num_workers = 2});
///   for (int epoch = 0; epoch < 3; ++epoch)
///     for (auto& batch : loader) step(batch[0], batch[1]);
///
/// Batches, and the random numbers drawn for their examples, depend on the seed alone and not on
/// the number of workers. Workers go on into the next epoch while the caller finishes this one. An
/// exception of a worker reaches the caller in the place of the batch; asking again gives the next
/// batch. One thread at a time may use a loader.
class DataLoader {
 public:
  class Iterator;

  explicit DataLoader(DatasetRef dataset, DataLoaderOptions options = {});
  explicit DataLoader(std::shared_ptr<const IterableDataset> dataset,
                      DataLoaderOptions options = {});
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;
  ~DataLoader();

  /// The next batch of the epoch; nothing at its end. The call after that begins the next epoch.
  std::optional<Batch> next();
  /// What is left of the epoch, as a range for one loop. A loop that is left early gives up the
  /// rest of its epoch.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  /// How many batches an epoch has. Throws for an iterable data set, which does not know.
  int64_t size() const;
  /// The epoch that the next batch belongs to, from 0 on.
  int64_t epoch() const;
  /// The number of that batch in its epoch.
  int64_t position() const;
  /// Goes to the beginning of an epoch.
  void set_epoch(int64_t epoch);

  /// Seed, epoch and position. A loader of the same data and options that loads them continues
  /// with exactly the batch that this one would give next.
  Value state_dict() const;
  void load_state_dict(const Value& state);

 private:
  struct Impl;
  // Leaves out the rest of the epoch.
  void skip_epoch();

  std::unique_ptr<Impl> impl_;
};

/// Holds the batch of a loop.
class DataLoader::Iterator {
 public:
  explicit Iterator(DataLoader& loader) : loader_(&loader) { ++*this; }
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;
  ~Iterator();

  Batch& operator*() { return *batch_; }
  Batch* operator->() { return &*batch_; }
  Iterator& operator++();
  bool operator==(std::default_sentinel_t) const { return !batch_; }

 private:
  DataLoader* loader_;
  std::optional<Batch> batch_;
};

inline DataLoader::Iterator DataLoader::begin() { return Iterator(*this); }

}  // namespace tensora::data

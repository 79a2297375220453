#pragma once

// Data sets whose examples are read in chunks, such as files, by threads of their own.

#include <condition_variable>
#include <deque>
#include <thread>

#include "tensora/libtorch/data/data_loader.h"

namespace torch::data::datasets {

/// Reads chunks by number. Several threads call `read_chunk` at once.
template <class Example_, class Chunk = std::vector<Example_>>
class ChunkDataReader {
 public:
  using ChunkType = Chunk;
  using ExampleType = Example_;
  virtual ~ChunkDataReader() = default;
  virtual ChunkType read_chunk(size_t chunk_index) = 0;
  virtual size_t chunk_count() = 0;
  /// Called at the start of each epoch.
  virtual void reset() = 0;
};

struct ChunkDatasetOptions {
  ChunkDatasetOptions() = delete;
  ChunkDatasetOptions(size_t preloader_count, size_t batch_size, size_t cache_size = 2048,
                      size_t cross_chunk_shuffle_count = 1);
  TORCH_ARG(size_t, preloader_count);            // threads that read chunks
  TORCH_ARG(size_t, batch_size);                 // of every request
  TORCH_ARG(size_t, cache_size) = 2048;          // examples; readers wait while there are as many
  TORCH_ARG(size_t, cross_chunk_shuffle_count);  // chunks whose examples are mixed
};

namespace detail {

/// The examples that were read and not yet taken.
template <class Example>
class ChunkBuffer {
 public:
  ChunkBuffer(size_t capacity, size_t readers) : capacity_(capacity), readers_(readers) {}

  /// Waits for room; false once `stop` was called.
  bool push(std::vector<Example> examples) {
    std::unique_lock lock(mutex_);
    room_there_.wait(lock, [&] { return stopped_ || examples_.size() < capacity_; });
    if (stopped_) return false;
    std::move(examples.begin(), examples.end(), std::back_inserter(examples_));
    batch_there_.notify_all();
    return true;
  }
  void push_exception(std::exception_ptr exception) {
    const std::lock_guard lock(mutex_);
    exceptions_.push_back(std::move(exception));
    batch_there_.notify_all();
  }
  void reader_ended() {
    const std::lock_guard lock(mutex_);
    --readers_;
    batch_there_.notify_all();
  }
  /// The next `count` examples; fewer, or none, at the end. Throws what a reader threw.
  std::vector<Example> pop(size_t count) {
    std::unique_lock lock(mutex_);
    batch_there_.wait(
        lock, [&] { return !exceptions_.empty() || examples_.size() >= count || readers_ == 0; });
    if (!exceptions_.empty()) {
      const std::exception_ptr exception = exceptions_.front();
      exceptions_.pop_front();
      throw WorkerException(exception);
    }
    const auto end =
        examples_.begin() + static_cast<std::ptrdiff_t>(std::min(count, examples_.size()));
    std::vector<Example> batch(std::make_move_iterator(examples_.begin()),
                               std::make_move_iterator(end));
    examples_.erase(examples_.begin(), end);
    room_there_.notify_all();
    return batch;
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    room_there_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable room_there_, batch_there_;
  std::deque<Example> examples_;
  std::deque<std::exception_ptr> exceptions_;
  size_t capacity_, readers_;
  bool stopped_ = false;
};

}  // namespace detail

/// The examples of a `ChunkReader`: chunks in the order of `chunk_sampler`, the examples of
/// `cross_chunk_shuffle_count` chunks together in the order of `example_sampler`.
template <class ChunkReader, class ChunkSampler = samplers::RandomSampler,
          class ExampleSampler = samplers::RandomSampler>
class ChunkDataset final
    : public StatefulDataset<ChunkDataset<ChunkReader, ChunkSampler, ExampleSampler>,
                             typename ChunkReader::BatchType, size_t> {
 public:
  using BatchType = std::optional<typename ChunkReader::BatchType>;
  using BatchRequestType = size_t;
  using UnwrappedBatchType = typename ChunkReader::BatchType;
  using ExampleType = typename UnwrappedBatchType::value_type;
  using Policy = std::function<void(UnwrappedBatchType&)>;

  /// `preprocessing_policy` changes the examples of a group of chunks before they are sampled.
  ChunkDataset(ChunkReader chunk_reader, ChunkSampler chunk_sampler, ExampleSampler example_sampler,
               ChunkDatasetOptions options, Policy preprocessing_policy = {})
      : chunk_reader_(std::move(chunk_reader)),
        chunk_sampler_(std::move(chunk_sampler)),
        example_sampler_(std::move(example_sampler)),
        options_(options),
        policy_(std::move(preprocessing_policy)) {}
  ~ChunkDataset() override { stop(); }
  ChunkDataset(const ChunkDataset&) = delete;
  ChunkDataset& operator=(const ChunkDataset&) = delete;

  BatchType get_batch(size_t batch_size) override {
    tensora::check(buffer_ != nullptr, "Dataset needs to call reset() before calling get_batch().");
    tensora::check(batch_size == options_.batch_size(),
                   "The requested batch size does not match with the initialized batch size.\n "
                   "The requested batch size is ",
                   batch_size, ", while the dataset is created with batch size equal to ",
                   options_.batch_size());
    auto batch = buffer_->pop(batch_size);
    if (batch.empty()) return std::nullopt;
    return UnwrappedBatchType(std::move(batch));
  }
  BatchType get_batch() { return get_batch(options_.batch_size()); }

  void reset() override {
    stop();
    if (!std::exchange(loaded_, false)) {
      chunk_reader_.reset();
      chunk_sampler_.reset(chunk_reader_.chunk_count());
    }
    buffer_ = std::make_unique<detail::ChunkBuffer<ExampleType>>(options_.cache_size(),
                                                                 options_.preloader_count());
    for (size_t i = 0; i < options_.preloader_count(); ++i)
      preloaders_.emplace_back([this] { preload(); });
  }
  std::optional<size_t> size() const override { return std::nullopt; }
  ChunkSampler& chunk_sampler() { return chunk_sampler_; }

  /// What is saved is the position of the chunk sampler: examples of chunks that were read but not
  /// yet taken do not come again.
  void save(serialize::OutputArchive& archive) const override {
    const std::lock_guard lock(sampler_mutex_);
    chunk_sampler_.save(archive);
  }
  void load(serialize::InputArchive& archive) override {
    const std::lock_guard lock(sampler_mutex_);
    chunk_sampler_.load(archive);
    loaded_ = true;
  }

 private:
  void preload() {
    while (!stopping_) {
      try {
        const auto chunks = next_chunks();
        if (!chunks || !buffer_->push(read(*chunks))) break;
      } catch (...) {
        buffer_->push_exception(std::current_exception());
      }
    }
    buffer_->reader_ended();
  }
  std::optional<std::vector<size_t>> next_chunks() {
    const std::lock_guard lock(sampler_mutex_);
    return chunk_sampler_.next(options_.cross_chunk_shuffle_count());
  }
  std::vector<ExampleType> read(const std::vector<size_t>& chunks) {
    UnwrappedBatchType read;
    for (const size_t chunk : chunks) {
      auto part = chunk_reader_.read_chunk(chunk);
      std::move(part.begin(), part.end(), std::back_inserter(read));
    }
    if (policy_) policy_(read);
    std::vector<ExampleType> ordered;
    if (read.empty()) return ordered;
    const std::lock_guard lock(example_mutex_);
    example_sampler_.reset(read.size());
    const auto order = example_sampler_.next(read.size());
    for (const size_t index : order.value()) ordered.push_back(std::move(read.at(index)));
    return ordered;
  }
  void stop() {
    if (!buffer_) return;
    stopping_ = true;
    buffer_->stop();
    for (std::thread& thread : preloaders_) thread.join();
    preloaders_.clear();
    stopping_ = false;
  }

  ChunkReader chunk_reader_;
  ChunkSampler chunk_sampler_;
  ExampleSampler example_sampler_;
  const ChunkDatasetOptions options_;
  const Policy policy_;
  mutable std::mutex sampler_mutex_;  // of the chunk sampler
  std::mutex example_mutex_;
  std::unique_ptr<detail::ChunkBuffer<ExampleType>> buffer_;
  std::vector<std::thread> preloaders_;
  std::atomic<bool> stopping_ = false;
  bool loaded_ = false;  // the sampler's position came from a file: the next epoch starts there
};

}  // namespace torch::data::datasets

#pragma once

// LibTorch's loader. Its batches are of any type, where tensora::data::DataLoader gives lists of
// tensors; so the queue of jobs is its own.

#include <any>
#include <chrono>
#include <functional>
#include <iterator>

#include "tensora/libtorch/data/dataset.h"
#include "tensora/libtorch/data/sampler.h"

namespace torch::data {

struct DataLoaderOptions {
  DataLoaderOptions() = default;
  DataLoaderOptions(size_t batch_size) : batch_size_(batch_size) {}  // NOLINT: implicit
  TORCH_ARG(size_t, batch_size) = 1;
  TORCH_ARG(size_t, workers) = 0;
  TORCH_ARG(std::optional<size_t>, max_jobs);
  TORCH_ARG(std::optional<std::chrono::milliseconds>, timeout);
  TORCH_ARG(bool, enforce_ordering) = true;
  TORCH_ARG(bool, drop_last) = false;
};

struct FullDataLoaderOptions {
  explicit FullDataLoaderOptions(const DataLoaderOptions& options)
      : batch_size(options.batch_size()),
        workers(options.workers()),
        max_jobs(options.max_jobs().value_or(2 * workers)),
        timeout(options.timeout()),
        enforce_ordering(options.enforce_ordering()),
        drop_last(options.drop_last()) {}
  size_t batch_size, workers, max_jobs;
  std::optional<std::chrono::milliseconds> timeout;
  bool enforce_ordering, drop_last;
};

/// What a worker threw, rethrown by the loop.
struct WorkerException : public std::exception {
  explicit WorkerException(std::exception_ptr original);
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
  std::exception_ptr original_exception;
};

namespace detail {

/// Threads that run jobs, and the results in the order of the jobs or as they come.
class Workers {
 public:
  /// `run` gets the number of the worker and the request; an empty result is dropped.
  using Run = std::function<std::any(size_t worker, std::any request)>;
  Workers(const FullDataLoaderOptions& options, Run run);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  void push(std::any request);
  /// Waits for a result; nothing where no job is under way. Throws what the job threw.
  std::any pop();
  size_t in_flight() const;
  /// Forgets all jobs and results.
  void drain();
  void join();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[noreturn]] void throw_iterator_error(const char* what);

}  // namespace detail

/// Walks the batches of an epoch; copies share their position.
template <class Batch>
class Iterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = Batch;
  using pointer = Batch*;
  using reference = Batch&;
  using iterator_category = std::input_iterator_tag;

  Iterator() = default;  // the end
  explicit Iterator(std::function<std::optional<Batch>()> next)
      : state_(std::make_shared<State>(State{std::move(next), {}, false})) {}

  Iterator& operator++() {
    if (!state_)
      detail::throw_iterator_error(
          "Incrementing the DataLoader's past-the-end iterator is not allowed");
    start();
    if (!state_->batch)
      detail::throw_iterator_error("Attempted to increment iterator past the end");
    state_->batch = state_->next();
    return *this;
  }
  Batch& operator*() {
    if (!state_)
      detail::throw_iterator_error(
          "Dereferencing the DataLoader's past-the-end iterator is not allowed");
    start();
    if (!state_->batch)
      detail::throw_iterator_error("Attempted to dereference iterator that was past the end");
    return *state_->batch;
  }
  Batch* operator->() { return &**this; }
  bool operator==(const Iterator& other) const {
    if (state_ == other.state_) return true;
    return (!state_ && other.at_end()) || (!other.state_ && at_end());
  }

 private:
  struct State {
    std::function<std::optional<Batch>()> next;
    std::optional<Batch> batch;
    bool started;
  };
  void start() const {
    if (state_->started) return;
    state_->started = true;
    state_->batch = state_->next();
  }
  bool at_end() const {
    if (!state_) return true;
    start();
    return !state_->batch;
  }
  std::shared_ptr<State> state_;
};

template <class Dataset, class Batch, class BatchRequest>
class DataLoaderBase {
 public:
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;

  virtual ~DataLoaderBase() = default;
  Iterator<Batch> begin() {
    tensora::check(!workers_ || workers_->in_flight() == 0,
                   "Attempted to get a new DataLoader iterator while another iterator is not yet "
                   "exhausted");
    reset();
    return Iterator<Batch>([this] { return next(); });
  }
  Iterator<Batch> end() { return {}; }
  void join() {
    if (workers_) workers_->join();
  }
  const FullDataLoaderOptions& options() const noexcept { return options_; }

 protected:
  explicit DataLoaderBase(const DataLoaderOptions& options) : options_(options) {}
  virtual std::optional<BatchRequest> get_batch_request() = 0;
  virtual Dataset& dataset_of(size_t worker) = 0;
  virtual void reset() {
    if (options_.workers == 0) return;
    if (workers_)
      workers_->drain();
    else
      workers_ = std::make_unique<detail::Workers>(
          options_, [this](size_t worker, std::any request) -> std::any {
            return result(
                dataset_of(worker).get_batch(std::any_cast<BatchRequest>(std::move(request))));
          });
    prefetch(options_.max_jobs);
  }
  void stop() { workers_.reset(); }  // before the data sets go

 private:
  void prefetch(size_t jobs) {
    for (size_t i = 0; i < jobs; ++i) {
      auto request = get_batch_request();
      if (!request) return;
      workers_->push(std::make_any<BatchRequest>(*std::move(request)));
    }
  }
  template <class Found>
  static std::any result(Found found) {
    if constexpr (std::same_as<Found, std::optional<Batch>>)
      return found ? std::any(std::make_shared<Batch>(*std::move(found))) : std::any();
    else
      return std::make_shared<Batch>(std::move(found));
  }
  std::optional<Batch> next() {
    if (options_.workers > 0) {
      while (true) {
        std::any found = workers_->pop();
        if (!found.has_value()) return std::nullopt;
        prefetch(1);
        return std::move(*std::any_cast<std::shared_ptr<Batch>&>(found));
      }
    }
    auto request = get_batch_request();
    if (!request) return std::nullopt;
    return dataset_of(0).get_batch(*std::move(request));
  }

  const FullDataLoaderOptions options_;
  std::unique_ptr<detail::Workers> workers_;
};

namespace detail {
template <class T>
struct BatchIn {
  using Type = T;
};
template <class T>
struct BatchIn<std::optional<T>> {
  using Type = T;
};
template <class Request>
size_t request_size(const Request& request) {
  return request.size();
}
}  // namespace detail

/// Batches of a data set in the order that a sampler gives; every worker has a copy of the set.
template <class Dataset, class Sampler>
class StatelessDataLoader : public DataLoaderBase<Dataset, typename Dataset::BatchType,
                                                  typename Sampler::BatchRequestType> {
 public:
  using Base =
      DataLoaderBase<Dataset, typename Dataset::BatchType, typename Sampler::BatchRequestType>;
  StatelessDataLoader(Dataset dataset, Sampler sampler, const DataLoaderOptions& options)
      : Base(options), sampler_(std::move(sampler)) {
    datasets_.reserve(std::max<size_t>(options.workers(), 1));
    for (size_t i = 0; i < options.workers(); ++i) datasets_.push_back(dataset);
    if (datasets_.empty()) datasets_.push_back(std::move(dataset));
  }
  ~StatelessDataLoader() override { this->stop(); }

 private:
  void reset() override {
    sampler_.reset(std::nullopt);
    Base::reset();
  }
  std::optional<typename Base::BatchRequestType> get_batch_request() override {
    auto request = sampler_.next(this->options().batch_size);
    if (!request ||
        (this->options().drop_last && detail::request_size(*request) < this->options().batch_size))
      return std::nullopt;
    return request;
  }
  Dataset& dataset_of(size_t worker) override { return datasets_[worker]; }

  Sampler sampler_;
  std::vector<Dataset> datasets_;
};

/// Batches of a data set that has a state, which all workers share.
template <class Dataset>
class StatefulDataLoader
    : public DataLoaderBase<Dataset, typename detail::BatchIn<typename Dataset::BatchType>::Type,
                            typename Dataset::BatchRequestType> {
 public:
  using Base = DataLoaderBase<Dataset, typename detail::BatchIn<typename Dataset::BatchType>::Type,
                              typename Dataset::BatchRequestType>;
  StatefulDataLoader(Dataset dataset, const DataLoaderOptions& options)
      : Base(options), dataset_(std::move(dataset)) {}
  ~StatefulDataLoader() override { this->stop(); }

 private:
  void reset() override {
    dataset_.reset();
    Base::reset();
  }
  std::optional<typename Base::BatchRequestType> get_batch_request() override {
    return this->options().batch_size;
  }
  Dataset& dataset_of(size_t) override { return dataset_; }

  Dataset dataset_;
};

template <class Dataset, class Sampler>
  requires(!Dataset::is_stateful)
std::unique_ptr<StatelessDataLoader<Dataset, Sampler>> make_data_loader(Dataset dataset,
                                                                        Sampler sampler,
                                                                        DataLoaderOptions options) {
  return std::make_unique<StatelessDataLoader<Dataset, Sampler>>(std::move(dataset),
                                                                 std::move(sampler), options);
}
template <class Sampler = samplers::RandomSampler, class Dataset>
  requires(!Dataset::is_stateful)
std::unique_ptr<StatelessDataLoader<Dataset, Sampler>> make_data_loader(
    Dataset dataset, DataLoaderOptions options = {}) {
  const std::optional<size_t> size = dataset.size();
  tensora::check(size.has_value(),
                 "Expected the dataset to be sized in order to construct the Sampler");
  return make_data_loader(std::move(dataset), Sampler(*size), options);
}
template <class Dataset>
  requires Dataset::is_stateful
std::unique_ptr<StatefulDataLoader<Dataset>> make_data_loader(Dataset dataset,
                                                              DataLoaderOptions options = {}) {
  return std::make_unique<StatefulDataLoader<Dataset>>(std::move(dataset), options);
}

}  // namespace torch::data

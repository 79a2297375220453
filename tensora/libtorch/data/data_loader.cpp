#include "tensora/libtorch/data/chunk.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <numeric>
#include <thread>

#include "tensora/data/labeled_images.h"
#include "tensora/ops.h"

namespace torch::data {

namespace {

std::string message_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace

WorkerException::WorkerException(std::exception_ptr original)
    : message("Caught exception in DataLoader worker thread. Original message: " +
              message_of(original)),
      original_exception(std::move(original)) {}

// ---- workers

namespace detail {

void throw_iterator_error(const char* what) { tensora::fail(what); }

struct Workers::State {
  struct Result {
    std::any value;
    std::exception_ptr exception;
  };
  explicit State(const FullDataLoaderOptions& given) : options(given) {}

  FullDataLoaderOptions options;
  mutable std::mutex mutex;
  std::condition_variable job_there, result_there;
  std::deque<std::pair<size_t, std::any>> jobs;
  std::map<size_t, Result> results;  // by the number of the job
  size_t pushed = 0;                 // jobs of this epoch
  size_t popped = 0;                 // whose results were taken
  uint64_t epoch = 0;                // results of earlier ones are dropped
  bool quit = false;
  std::vector<std::thread> threads;
};

Workers::Workers(const FullDataLoaderOptions& options, Run run)
    : state_(std::make_unique<State>(options)) {
  State& state = *state_;
  for (size_t worker = 0; worker < options.workers; ++worker) {
    state.threads.emplace_back([&state, run, worker] {
      std::unique_lock lock(state.mutex);
      while (true) {
        state.job_there.wait(lock, [&] { return state.quit || !state.jobs.empty(); });
        if (state.quit) return;
        auto [number, request] = std::move(state.jobs.front());
        state.jobs.pop_front();
        const uint64_t epoch = state.epoch;
        lock.unlock();
        State::Result result;
        try {
          result.value = run(worker, std::move(request));
        } catch (...) {
          result.exception = std::current_exception();
        }
        lock.lock();
        if (epoch == state.epoch) state.results.emplace(number, std::move(result));
        state.result_there.notify_all();
      }
    });
  }
}

Workers::~Workers() { join(); }

void Workers::push(std::any request) {
  const std::lock_guard lock(state_->mutex);
  state_->jobs.emplace_back(state_->pushed++, std::move(request));
  state_->job_there.notify_one();
}

std::any Workers::pop() {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  while (state.popped < state.pushed) {
    const auto ready = [&] {
      return state.options.enforce_ordering ? state.results.contains(state.popped)
                                            : !state.results.empty();
    };
    if (state.options.timeout)
      tensora::check(state.result_there.wait_for(lock, *state.options.timeout, ready),
                     "Timeout in DataLoader queue while waiting for next batch (timeout was ",
                     state.options.timeout->count(), " ms)");
    else
      state.result_there.wait(lock, ready);
    const auto found = state.results.begin();  // the first number, which is the next in order
    const State::Result result = std::move(found->second);
    state.results.erase(found);
    ++state.popped;
    if (result.exception) throw WorkerException(result.exception);
    if (result.value.has_value()) return result.value;
  }
  return {};
}

size_t Workers::in_flight() const {
  const std::lock_guard lock(state_->mutex);
  return state_->pushed - state_->popped;
}

void Workers::drain() {
  const std::lock_guard lock(state_->mutex);
  state_->jobs.clear();
  state_->results.clear();
  state_->pushed = state_->popped = 0;
  ++state_->epoch;
}

void Workers::join() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->quit = true;
  }
  state_->job_there.notify_all();
  for (std::thread& thread : state_->threads)
    if (thread.joinable()) thread.join();
}

}  // namespace detail

// ---- data sets

namespace datasets {

ChunkDatasetOptions::ChunkDatasetOptions(size_t preloader_count, size_t batch_size,
                                         size_t cache_size, size_t cross_chunk_shuffle_count)
    : preloader_count_(preloader_count),
      batch_size_(batch_size),
      cache_size_(cache_size),
      cross_chunk_shuffle_count_(cross_chunk_shuffle_count) {
  using tensora::check;
  check(preloader_count > 0, "Preloader count is 0. At least one preloader needs to be specified.");
  check(batch_size > 0, "Batch size is 0. A positive batch size needs to be specified.");
  check(cache_size > 0, "Cache size is 0. A positive cache size needs to be specified.");
  check(cache_size >= batch_size,
        "Cache size is less than batch size. Cache needs to be large enough to hold at least one "
        "batch.");
  check(cross_chunk_shuffle_count > 0, "cross_chunk_shuffle_count needs to be greater than 0.");
}

}  // namespace datasets

// ---- samplers

namespace samplers {

namespace detail {

void ListSampler::reset(std::optional<size_t> new_size) {
  if (new_size) size_ = *new_size;
  list_ = indices();
  index_ = 0;
}

std::optional<std::vector<size_t>> ListSampler::next(size_t batch_size) {
  if (index_ >= list_.size()) return std::nullopt;
  const size_t end = std::min(index_ + batch_size, list_.size());
  std::vector<size_t> batch(list_.begin() + static_cast<std::ptrdiff_t>(index_),
                            list_.begin() + static_cast<std::ptrdiff_t>(end));
  index_ = end;
  return batch;
}

void ListSampler::save(serialize::OutputArchive& archive) const {
  std::vector<int64_t> list(list_.begin(), list_.end());
  archive.write("indices", torch::tensor(list), /*is_buffer=*/true);
  archive.write("index", c10::IValue(static_cast<int64_t>(index_)));
}

void ListSampler::load(serialize::InputArchive& archive) {
  Tensor list;
  archive.read("indices", list, /*is_buffer=*/true);
  const auto* numbers = list.data_ptr<int64_t>();
  list_.assign(numbers, numbers + list.numel());
  c10::IValue index;
  archive.read("index", index);
  index_ = static_cast<size_t>(index.toInt());
}

}  // namespace detail

namespace {

std::vector<size_t> counted(size_t size) {
  std::vector<size_t> list(size);
  std::iota(list.begin(), list.end(), size_t{0});
  return list;
}

std::vector<size_t> permuted(size_t size) {
  const Tensor order = torch::randperm(static_cast<int64_t>(size));
  const auto* numbers = order.data_ptr<int64_t>();
  return {numbers, numbers + size};
}

}  // namespace

SequentialSampler::SequentialSampler(size_t size) : ListSampler(size) { ListSampler::reset(); }
std::vector<size_t> SequentialSampler::indices() const { return counted(size_); }

RandomSampler::RandomSampler(int64_t size, Dtype) : ListSampler(static_cast<size_t>(size)) {
  ListSampler::reset();
}
std::vector<size_t> RandomSampler::indices() const { return permuted(size_); }

DistributedRandomSampler::DistributedRandomSampler(size_t size, size_t num_replicas, size_t rank,
                                                   bool allow_duplicates)
    : DistributedSampler(size, num_replicas, rank, allow_duplicates) {
  ListSampler::reset();
}
std::vector<size_t> DistributedRandomSampler::indices() const {
  // The same order in all processes, which each takes every num_replicas-th of.
  tensora::Generator generator(epoch_);
  const tensora::GeneratorScope scope(generator);
  const std::vector<size_t> order = permuted(local_sample_count() * num_replicas_);
  std::vector<size_t> own;
  for (size_t i = 0; i < local_sample_count(); ++i)
    own.push_back(order[rank_ + i * num_replicas_] % size_);
  return own;
}
void DistributedRandomSampler::save(serialize::OutputArchive& archive) const {
  ListSampler::save(archive);
  archive.write("epoch", c10::IValue(static_cast<int64_t>(epoch_)));
}
void DistributedRandomSampler::load(serialize::InputArchive& archive) {
  ListSampler::load(archive);
  c10::IValue epoch;
  archive.read("epoch", epoch);
  epoch_ = static_cast<size_t>(epoch.toInt());
}

DistributedSequentialSampler::DistributedSequentialSampler(size_t size, size_t num_replicas,
                                                           size_t rank, bool allow_duplicates)
    : DistributedSampler(size, num_replicas, rank, allow_duplicates) {
  ListSampler::reset();
}
std::vector<size_t> DistributedSequentialSampler::indices() const {
  std::vector<size_t> own;
  const size_t count = local_sample_count();
  for (size_t i = 0; i < count; ++i) own.push_back((rank_ * count + i) % size_);
  return own;
}

void StreamSampler::reset(std::optional<size_t> new_size) {
  if (new_size) epoch_size_ = *new_size;
  examples_retrieved_so_far_ = 0;
}
std::optional<BatchSize> StreamSampler::next(size_t batch_size) {
  if (examples_retrieved_so_far_ >= epoch_size_) return std::nullopt;
  batch_size = std::min(batch_size, epoch_size_ - examples_retrieved_so_far_);
  examples_retrieved_so_far_ += batch_size;
  return BatchSize(batch_size);
}
void StreamSampler::save(serialize::OutputArchive& archive) const {
  archive.write("examples_retrieved_so_far",
                c10::IValue(static_cast<int64_t>(examples_retrieved_so_far_)));
}
void StreamSampler::load(serialize::InputArchive& archive) {
  c10::IValue count;
  archive.read("examples_retrieved_so_far", count);
  examples_retrieved_so_far_ = static_cast<size_t>(count.toInt());
}

}  // namespace samplers

// ---- data sets, transforms

namespace datasets {

TensorDataset::TensorDataset(const std::vector<Tensor>& tensors) : tensor(torch::stack(tensors)) {}

MNIST::MNIST(const std::string& root, Mode mode) : is_train_(mode == Mode::kTrain) {
  const tensora::data::MNIST own(root, {.train = is_train_});
  images_ = own.images().to(kFloat32).div(255);
  targets_ = own.labels();
}
Example<> MNIST::get(size_t index) {
  const auto i = static_cast<int64_t>(index);
  return {images_[i], targets_[i]};
}
std::optional<size_t> MNIST::size() const { return static_cast<size_t>(images_.size(0)); }

}  // namespace datasets

namespace transforms {

Example<> Stack<Example<>>::apply_batch(std::vector<Example<>> examples) {
  std::vector<Tensor> data, targets;
  for (auto& example : examples) {
    data.push_back(std::move(example.data));
    targets.push_back(std::move(example.target));
  }
  return {torch::stack(data), torch::stack(targets)};
}

TensorExample Stack<TensorExample>::apply_batch(std::vector<TensorExample> examples) {
  std::vector<Tensor> data;
  for (auto& example : examples) data.push_back(std::move(example.data));
  return torch::stack(data);
}

}  // namespace transforms
}  // namespace torch::data

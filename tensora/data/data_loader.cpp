#include "tensora/data/data_loader.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "tensora/base/thread_pool.h"
#include "tensora/core/pinned.h"
#include "tensora/data/batch_source.h"
#include "tensora/data/collate.h"
#include "tensora/data/draw.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"

namespace tensora::data {

// Note [Order of batches]
// The batches in preparation stand in a queue, in their order. A worker takes the next piece of
// work and its place in the queue together, makes the batch outside the lock, and marks it as
// ready; the caller waits for the first in the queue. Taking work may take long (a new order of a
// large data set, a slow stream), so it happens outside the lock too: `taking_` keeps it to one
// worker. The end of an epoch is an entry like any other, so workers run on into the next epoch.
// Going to another place clears the queue; a worker that still makes a batch of it finishes that
// for nobody.

// Note [Random streams of examples]
// While an example is made, this thread's generator is one whose seed follows from the loader's
// seed, the epoch, the example's place in the epoch and its index. So augmentation gives the same
// results with any number of workers and in a resumed run, and processes that share an epoch draw
// different numbers.

namespace {

struct Slot {
  BatchWork work;
  Batch batch;
  std::exception_ptr error;
  bool ready = false;
};

uint64_t choose_seed(const std::optional<uint64_t>& wanted) {
  return wanted ? *wanted : current_generator().fork().initial_seed();
}

void check_options(const DataLoaderOptions& o, bool iterable) {
  check(o.batch_size > 0, "DataLoader: expected a batch_size above 0, got ", o.batch_size);
  check(o.num_workers >= 0, "DataLoader: expected num_workers of at least 0, got ", o.num_workers);
  check(o.prefetch_factor > 0, "DataLoader: expected a prefetch_factor above 0, got ",
        o.prefetch_factor);
  check(!o.sampler || !o.shuffle, "DataLoader: sampler and shuffle exclude each other");
  check(!o.batch_sampler || (o.batch_size == 1 && !o.shuffle && !o.sampler && !o.drop_last),
        "DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last");
  check(!iterable || (!o.shuffle && !o.sampler && !o.batch_sampler),
        "DataLoader: an iterable data set has its own order: shuffle, sampler and batch_sampler ",
        "do not apply");
}

std::shared_ptr<const BatchSampler> batch_sampler_of(const Dataset& dataset,
                                                     const DataLoaderOptions& o) {
  if (o.batch_sampler) return o.batch_sampler;
  const int64_t count = dataset.size();
  std::shared_ptr<const Sampler> sampler = o.sampler;
  if (!sampler && o.shuffle) sampler = std::make_shared<RandomSampler>(count);
  if (!sampler) sampler = std::make_shared<SequentialSampler>(count);
  return std::make_shared<BatchSampler>(sampler, o.batch_size,
                                        BatchSamplerOptions{.drop_last = o.drop_last});
}

}  // namespace

struct DataLoader::Impl {
  Impl(std::optional<DatasetRef> data, std::shared_ptr<const BatchSampler> batches,
       std::unique_ptr<BatchSource> from, uint64_t seed_used, DataLoaderOptions o);
  ~Impl();

  std::optional<Batch> next();
  void seek(uint64_t new_seed, int64_t new_epoch, int64_t new_position);

  std::optional<DatasetRef> dataset;  // none: the source gives the examples
  std::shared_ptr<const BatchSampler> batch_sampler;
  DataLoaderOptions options;
  // The caller's place.
  uint64_t seed;
  int64_t epoch = 0, position = 0;

 private:
  void start_workers();
  void run_worker();
  void take(Slot& slot);
  void make(Slot& slot) const;
  Batch make_batch(const BatchWork& work) const;
  std::vector<Example> get_examples(const BatchWork& work) const;
  std::shared_ptr<Slot> wait_for_first();
  Tensor to_device(const Tensor& tensor) const;

  const PinnedMemory* pinned_ = nullptr;
  size_t capacity_;
  std::vector<std::thread> workers_;
  std::unique_ptr<BatchSource> source_;

  std::mutex mutex_;
  std::condition_variable room_;   // for workers: there is work that one may take
  std::condition_variable ready_;  // for the caller: a batch is ready, or nobody is taking work
  std::deque<std::shared_ptr<Slot>> queue_;
  bool taking_ = false;
  bool stopping_ = false;
};

DataLoader::Impl::Impl(std::optional<DatasetRef> data, std::shared_ptr<const BatchSampler> batches,
                       std::unique_ptr<BatchSource> from, uint64_t seed_used, DataLoaderOptions o)
    : dataset(std::move(data)),
      batch_sampler(std::move(batches)),
      options(std::move(o)),
      seed(seed_used),
      capacity_(static_cast<size_t>(options.num_workers) *
                static_cast<size_t>(options.prefetch_factor)),
      source_(std::move(from)) {
  if (options.pin_memory || !options.device.is_cpu())
    pinned_ = pinned_memory(options.device.is_cpu() ? DeviceType::cuda : options.device.type);
  if (!options.device.is_cpu()) require_device(options.device);
}

DataLoader::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// ---- making batches
// ------------------------------------------------------------------------------

void DataLoader::Impl::take(Slot& slot) {
  try {
    source_->take(slot.work);
  } catch (...) {
    slot.error = std::current_exception();
  }
}

void DataLoader::Impl::make(Slot& slot) const {
  if (slot.error || slot.work.end_of_epoch) return;
  try {
    slot.batch = make_batch(slot.work);
  } catch (...) {
    slot.error = std::current_exception();
  }
  slot.work.examples.clear();
}

std::vector<Example> DataLoader::Impl::get_examples(const BatchWork& work) const {
  std::vector<Example> examples;
  examples.reserve(work.indices.size());
  Generator generator;
  const GeneratorScope scope(generator);
  for (size_t i = 0; i < work.indices.size(); ++i) {
    const int64_t index = work.indices[i];
    // See Note [Random streams of examples].
    generator.manual_seed(
        mix_seed(work.seed, work.first_position + i, static_cast<uint64_t>(index)));
    try {
      examples.push_back((*dataset)->get(index));
    } catch (const std::exception& error) {
      std::throw_with_nested(Error(concat("DataLoader: example ", index, " (batch ", work.batch,
                                          " of epoch ", work.epoch, "): ", error.what())));
    }
  }
  return examples;
}

Batch DataLoader::Impl::make_batch(const BatchWork& work) const {
  const auto new_tensor = [this](const Shape& sizes, DType dtype) {
    return pinned_ ? pinned_->empty(sizes, dtype) : empty(sizes, {.dtype = dtype});
  };
  Batch batch;
  if (dataset) {
    const int64_t count = (*dataset)->size();
    for (const int64_t index : work.indices)
      check(index >= 0 && index < count, "DataLoader: the sampler gave index ", index,
            ", but the data set has ", count, " examples");
    if (!options.collate_fn) {
      Generator generator(mix_seed(work.seed, work.first_position));
      const GeneratorScope scope(generator);
      if (std::optional<Batch> whole = (*dataset)->get_batch(work.indices, new_tensor))
        return std::move(*whole);
    }
  }
  const std::vector<Example> made = dataset ? get_examples(work) : std::vector<Example>();
  const std::vector<Example>& examples = dataset ? made : work.examples;
  if (!options.collate_fn) return default_collate(examples, work.indices, new_tensor);
  Generator generator(mix_seed(work.seed, work.first_position, 1));
  const GeneratorScope scope(generator);
  batch = options.collate_fn(examples);
  if (!pinned_) return batch;
  for (Tensor& tensor : batch) {
    if (!tensor.defined() || !tensor.is_cpu() || pinned_->holds(tensor)) continue;
    const Tensor copy = pinned_->empty(tensor.sizes(), tensor.dtype());
    copy.copy_(tensor);
    tensor = copy;
  }
  return batch;
}

Tensor DataLoader::Impl::to_device(const Tensor& tensor) const {
  if (!tensor.defined() || tensor.device() == options.device) return tensor;
  if (!pinned_ || !pinned_->holds(tensor) || !tensor.is_contiguous())
    return tensor.to(options.device);
  Tensor result = empty(tensor.sizes(), {.dtype = tensor.dtype(), .device = options.device});
  pinned_->copy_async(result, tensor);
  return result;
}

// ---- workers
// -------------------------------------------------------------------------------------

void DataLoader::Impl::start_workers() {
  try {
    while (workers_.size() < static_cast<size_t>(options.num_workers))
      workers_.emplace_back([this] { run_worker(); });
  } catch (const std::system_error& error) {
    fail("DataLoader: worker ", workers_.size(), " of ", options.num_workers,
         " could not be started: ", error.what());
  }
}

void DataLoader::Impl::run_worker() {
  // The parallelism is that of the workers: ops in them leave the thread pool to the caller.
  tensora::detail::inside_parallel_region = true;
  std::unique_lock lock(mutex_);
  while (true) {
    room_.wait(lock, [this] { return stopping_ || (!taking_ && queue_.size() < capacity_); });
    if (stopping_) return;
    taking_ = true;
    lock.unlock();
    const auto slot = std::make_shared<Slot>();
    take(*slot);
    lock.lock();
    taking_ = false;
    queue_.push_back(slot);
    room_.notify_one();
    ready_.notify_one();
    lock.unlock();
    make(*slot);
    lock.lock();
    slot->ready = true;
    ready_.notify_one();
  }
}

std::shared_ptr<Slot> DataLoader::Impl::wait_for_first() {
  start_workers();
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return !queue_.empty() && queue_.front()->ready; });
  std::shared_ptr<Slot> first = std::move(queue_.front());
  queue_.pop_front();
  room_.notify_one();
  return first;
}

// ---- the caller
// ----------------------------------------------------------------------------------

std::optional<Batch> DataLoader::Impl::next() {
  std::shared_ptr<Slot> slot;
  if (options.num_workers > 0) {
    slot = wait_for_first();
  } else {
    slot = std::make_shared<Slot>();
    take(*slot);
    make(*slot);
  }
  const BatchWork& work = slot->work;
  epoch = work.end_of_epoch ? work.epoch + 1 : work.epoch;
  position = work.end_of_epoch ? 0 : work.batch + 1;
  if (slot->error) std::rethrow_exception(slot->error);
  if (work.end_of_epoch) return {};
  if (!options.device.is_cpu())
    for (Tensor& tensor : slot->batch) tensor = to_device(tensor);
  return std::move(slot->batch);
}

void DataLoader::Impl::seek(uint64_t new_seed, int64_t new_epoch, int64_t new_position) {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return !taking_; });
  queue_.clear();
  seed = new_seed;
  epoch = new_epoch;
  position = new_position;
  source_->seek(new_seed, new_epoch, new_position);
  room_.notify_all();
}

// ---- DataLoader
// ----------------------------------------------------------------------------------

DataLoader::DataLoader(DatasetRef dataset, DataLoaderOptions options) {
  check_options(options, /*iterable=*/false);
  check(dataset->size() > 0, "DataLoader: the data set is empty");
  auto batches = batch_sampler_of(*dataset, options);
  const uint64_t seed = choose_seed(options.seed);
  auto source = std::make_unique<PlannedSource>(batches, seed);
  impl_ = std::make_unique<Impl>(std::move(dataset), std::move(batches), std::move(source), seed,
                                 std::move(options));
}

DataLoader::DataLoader(std::shared_ptr<const IterableDataset> dataset, DataLoaderOptions options) {
  check(dataset != nullptr, "DataLoader: expected a data set, got a null pointer");
  check_options(options, /*iterable=*/true);
  const uint64_t seed = choose_seed(options.seed);
  auto source = std::make_unique<StreamedSource>(std::move(dataset), options.batch_size,
                                                 options.drop_last, seed);
  impl_ =
      std::make_unique<Impl>(std::nullopt, nullptr, std::move(source), seed, std::move(options));
}

DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;
DataLoader::~DataLoader() = default;

std::optional<Batch> DataLoader::next() { return impl_->next(); }

int64_t DataLoader::size() const {
  check(impl_->batch_sampler != nullptr,
        "DataLoader: how many batches an iterable data set has is not known before its end");
  return impl_->batch_sampler->size();
}

int64_t DataLoader::epoch() const { return impl_->epoch; }
int64_t DataLoader::position() const { return impl_->position; }

void DataLoader::set_epoch(int64_t epoch) {
  check(epoch >= 0, "DataLoader: expected an epoch of at least 0, got ", epoch);
  // Nothing that was prepared is given up for a place where the loader is already.
  if (epoch != impl_->epoch || impl_->position != 0) impl_->seek(impl_->seed, epoch, 0);
}

void DataLoader::skip_epoch() { impl_->seek(impl_->seed, impl_->epoch + 1, 0); }

Value DataLoader::state_dict() const {
  Value state = Value::dict();
  state["seed"] = static_cast<int64_t>(impl_->seed);
  state["epoch"] = impl_->epoch;
  state["position"] = impl_->position;
  if (impl_->batch_sampler) state["size"] = size();
  return state;
}

void DataLoader::load_state_dict(const Value& state) {
  const auto seed = static_cast<uint64_t>(state.at("seed").to_int());
  const int64_t epoch = state.at("epoch").to_int(), position = state.at("position").to_int();
  check(epoch >= 0 && position >= 0, "DataLoader: expected an epoch and a position of at least 0, ",
        "got ", epoch, " and ", position);
  const Value* const batches = state.find(std::string("size"));
  if (position > 0 && batches && impl_->batch_sampler)
    check(batches->to_int() == size(), "DataLoader: the state is of a loader with ",
          batches->to_int(), " batches an epoch, but this one has ", size());
  impl_->seek(seed, epoch, position);
}

// ---- Iterator
// ------------------------------------------------------------------------------------

DataLoader::Iterator::~Iterator() {
  if (batch_) loader_->skip_epoch();
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  batch_.reset();  // its memory can serve the next batch
  const int64_t epoch = loader_->epoch();
  try {
    batch_ = loader_->next();
  } catch (...) {
    // The loop is left early, unless this was the end of its epoch.
    if (loader_->epoch() == epoch) loader_->skip_epoch();
    throw;
  }
  return *this;
}

}  // namespace tensora::data

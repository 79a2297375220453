#include "tensora/data/batch_source.h"

#include "tensora/data/draw.h"

namespace tensora::data {

void BatchSource::seek(uint64_t seed, int64_t epoch, int64_t batch) {
  forget_epoch();
  seed_ = seed;
  epoch_ = epoch;
  batch_ = batch;
}

void BatchSource::place(BatchWork& work) const {
  work.epoch = epoch_;
  work.batch = batch_;
  work.seed = mix_seed(seed_, static_cast<uint64_t>(epoch_), 1);  // not that of the order
}

void BatchSource::finish_epoch(BatchWork& work) {
  work.end_of_epoch = true;
  forget_epoch();
  ++epoch_;
  batch_ = 0;
}

uint64_t BatchSource::epoch_seed() const { return mix_seed(seed_, static_cast<uint64_t>(epoch_)); }

// ---- PlannedSource
// -------------------------------------------------------------------------------

PlannedSource::PlannedSource(std::shared_ptr<const BatchSampler> sampler, uint64_t seed)
    : BatchSource(seed), sampler_(std::move(sampler)) {}

void PlannedSource::take(BatchWork& work) {
  place(work);
  if (!plan_) {
    Generator generator(epoch_seed());
    try {
      plan_ = sampler_->plan(epoch_, generator);
    } catch (...) {
      finish_epoch(work);
      throw;
    }
  }
  const auto batch = static_cast<size_t>(batch_);
  if (batch >= plan_->size()) return finish_epoch(work);
  const std::span<const int64_t> indices = (*plan_)[batch];
  work.indices.assign(indices.begin(), indices.end());
  work.first_position = plan_->begin_of(batch);
  ++batch_;
}

// ---- StreamedSource
// ------------------------------------------------------------------------------

StreamedSource::StreamedSource(std::shared_ptr<const IterableDataset> dataset, int64_t batch_size,
                               bool drop_last, uint64_t seed)
    : BatchSource(seed),
      dataset_(std::move(dataset)),
      batch_size_(batch_size),
      drop_last_(drop_last) {}

// A stream has only a beginning: to continue in the middle, what came before is read again.
void StreamedSource::open_stream() {
  generator_.manual_seed(epoch_seed());
  ended_ = false;
  stream_ = dataset_->open(epoch_);
  check(stream_ != nullptr, "DataLoader: the data set's open gave no stream");
  for (int64_t i = 0; i < batch_ * batch_size_ && !ended_; ++i) ended_ = !stream_->next();
}

void StreamedSource::take(BatchWork& work) {
  place(work);
  const GeneratorScope scope(generator_);
  try {
    if (!stream_) open_stream();
    while (!ended_ && static_cast<int64_t>(work.examples.size()) < batch_size_) {
      std::optional<Example> example = stream_->next();
      ended_ = !example;
      if (example) work.examples.push_back(std::move(*example));
    }
  } catch (...) {
    // What a broken stream would give next is unknown, so the epoch ends here.
    finish_epoch(work);
    throw;
  }
  const bool whole = static_cast<int64_t>(work.examples.size()) == batch_size_;
  if (work.examples.empty() || (drop_last_ && !whole)) return finish_epoch(work);
  ++batch_;
}

}  // namespace tensora::data

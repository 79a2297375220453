#include "tensora/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensora/base/check.h"
#include "tensora/data/draw.h"
#include "tensora/ops/creation/tensor.h"
#include "tensora/ops/random/sample.h"

namespace tensora::data {
namespace {

std::vector<int64_t> count_up(int64_t count) {
  std::vector<int64_t> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), int64_t{0});
  return result;
}

std::vector<int64_t> shuffled(int64_t count, Generator& generator) {
  const GeneratorScope scope(generator);
  return to_vector<int64_t>(randperm(count));
}

}  // namespace

// ---- SequentialSampler
// ---------------------------------------------------------------------------

SequentialSampler::SequentialSampler(int64_t size) : size_(size) {
  check(size >= 0, "SequentialSampler: expected a size of at least 0, got ", size);
}

std::vector<int64_t> SequentialSampler::indices(int64_t, Generator&) const {
  return count_up(size_);
}

// ---- RandomSampler
// -------------------------------------------------------------------------------

RandomSampler::RandomSampler(int64_t size, RandomSamplerOptions options)
    : count_(size), options_(options) {
  check(size > 0, "RandomSampler: expected a data set with examples, got a size of ", size);
  check(options.num_samples >= 0, "RandomSampler: expected num_samples of at least 0, got ",
        options.num_samples);
  if (options_.num_samples == 0) options_.num_samples = size;
}

std::vector<int64_t> RandomSampler::indices(int64_t, Generator& generator) const {
  std::vector<int64_t> result;
  const auto wanted = static_cast<size_t>(options_.num_samples);
  result.reserve(wanted);
  if (options_.replacement) {
    for (size_t i = 0; i < wanted; ++i) result.push_back(draw_below(generator, count_));
    return result;
  }
  while (result.size() < wanted) {
    const std::vector<int64_t> order = shuffled(count_, generator);
    const size_t take = std::min(order.size(), wanted - result.size());
    result.insert(result.end(), order.begin(), order.begin() + static_cast<std::ptrdiff_t>(take));
  }
  return result;
}

// ---- WeightedRandomSampler
// -----------------------------------------------------------------------

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                                             WeightedRandomSamplerOptions options)
    : weights_(std::move(weights)), num_samples_(num_samples), options_(options) {
  int64_t positive = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    check(std::isfinite(weights_[i]) && weights_[i] >= 0,
          "WeightedRandomSampler: expected finite weights of at least 0, got ", weights_[i],
          " at index ", i);
    positive += weights_[i] > 0;
  }
  check(positive > 0, "WeightedRandomSampler: expected a weight above 0, got none");
  check(num_samples > 0, "WeightedRandomSampler: expected num_samples above 0, got ", num_samples);
  check(options_.replacement || num_samples <= positive, "WeightedRandomSampler: cannot draw ",
        num_samples, " examples without replacement where ", positive, " have a weight above 0");
}

std::vector<int64_t> WeightedRandomSampler::indices(int64_t, Generator& generator) const {
  if (!options_.replacement) {
    // The smallest of exponential variates with these rates: a draw without replacement.
    std::vector<std::pair<double, int64_t>> keys;
    for (size_t i = 0; i < weights_.size(); ++i)
      if (weights_[i] > 0)
        keys.emplace_back(-std::log1p(-draw_uniform(generator)) / weights_[i], i);
    std::sort(keys.begin(), keys.end());
    std::vector<int64_t> result;
    for (int64_t i = 0; i < num_samples_; ++i)
      result.push_back(keys[static_cast<size_t>(i)].second);
    return result;
  }
  std::vector<double> sums(weights_.size());
  std::partial_sum(weights_.begin(), weights_.end(), sums.begin());
  std::vector<int64_t> result;
  result.reserve(static_cast<size_t>(num_samples_));
  for (int64_t i = 0; i < num_samples_; ++i) {
    const double place = draw_uniform(generator, 0, sums.back());
    // The first sum above the place: never that of a weight of 0.
    result.push_back(std::upper_bound(sums.begin(), sums.end(), place) - sums.begin());
  }
  return result;
}

// ---- DistributedSampler
// --------------------------------------------------------------------------

DistributedSampler::DistributedSampler(int64_t size, DistributedSamplerOptions options)
    : count_(size), options_(options) {
  const int64_t replicas = options.num_replicas;
  check(size > 0, "DistributedSampler: expected a data set with examples, got a size of ", size);
  check(replicas > 0, "DistributedSampler: expected num_replicas above 0, got ", replicas);
  check(options.rank >= 0 && options.rank < replicas, "DistributedSampler: expected a rank from 0 ",
        "to ", replicas - 1, ", got ", options.rank);
  share_ = options.drop_last ? size / replicas : (size + replicas - 1) / replicas;
}

std::vector<int64_t> DistributedSampler::indices(int64_t epoch, Generator&) const {
  Generator common(mix_seed(options_.seed, static_cast<uint64_t>(epoch)));
  const std::vector<int64_t> order = options_.shuffle ? shuffled(count_, common) : count_up(count_);
  std::vector<int64_t> result;
  result.reserve(static_cast<size_t>(share_));
  for (int64_t i = 0; i < share_; ++i)
    result.push_back(
        order[static_cast<size_t>((options_.rank + i * options_.num_replicas) % count_)]);
  return result;
}

// ---- BatchSampler
// --------------------------------------------------------------------------------

void BatchPlan::push_back(std::span<const int64_t> batch) {
  indices.insert(indices.end(), batch.begin(), batch.end());
  ends.push_back(indices.size());
}

BatchSampler::BatchSampler(std::shared_ptr<const Sampler> sampler, int64_t batch_size,
                           BatchSamplerOptions options)
    : sampler_(std::move(sampler)), batch_size_(batch_size), options_(options) {
  check(sampler_ != nullptr, "BatchSampler: expected a sampler, got a null pointer");
  check(batch_size > 0, "BatchSampler: expected a batch_size above 0, got ", batch_size);
}

BatchPlan BatchSampler::plan(int64_t epoch, Generator& generator) const {
  BatchPlan result;
  result.indices = sampler_->indices(epoch, generator);
  const auto step = static_cast<size_t>(batch_size_);
  for (size_t end = step; end <= result.indices.size(); end += step) result.ends.push_back(end);
  const size_t whole = result.ends.empty() ? 0 : result.ends.back();
  if (whole == result.indices.size()) return result;
  if (options_.drop_last)
    result.indices.resize(whole);
  else
    result.ends.push_back(result.indices.size());
  return result;
}

int64_t BatchSampler::size() const {
  const int64_t count = sampler_->size();
  return options_.drop_last ? count / batch_size_ : (count + batch_size_ - 1) / batch_size_;
}

}  // namespace tensora::data

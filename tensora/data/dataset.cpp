#include "tensora/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensora/core/random.h"
#include "tensora/data/collate.h"
#include "tensora/ops/creation/tensor.h"
#include "tensora/ops/random/sample.h"

namespace tensora::data {

// ---- Dataset
// -------------------------------------------------------------------------------------

std::optional<Batch> Dataset::get_batch(std::span<const int64_t>, NewTensor) const { return {}; }

Example Dataset::at(int64_t index) const {
  const int64_t count = size();
  check(index >= -count && index < count, "Dataset: index ", index,
        " is out of range for a data set of ", count, " examples");
  return get(index < 0 ? index + count : index);
}

// ---- TensorDataset
// -------------------------------------------------------------------------------

TensorDataset::TensorDataset(TensorList tensors) : tensors_(std::move(tensors)) {
  check(!tensors_.empty(), "TensorDataset: expected at least one tensor");
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    check(tensor.defined() && tensor.dim() > 0, "TensorDataset: tensor ", i,
          " must have a first dim, that of the examples");
    check(tensor.size(0) == tensors_[0].size(0), "TensorDataset: expected as many rows in every ",
          "tensor, got ", tensors_[0].size(0), " in tensor 0 and ", tensor.size(0), " in tensor ",
          i);
  }
}

Example TensorDataset::get(int64_t index) const {
  Example example;
  example.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) example.push_back(tensor[index]);
  return example;
}

std::optional<Batch> TensorDataset::get_batch(std::span<const int64_t> indices,
                                              NewTensor new_tensor) const {
  Batch batch;
  batch.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) batch.push_back(gather_rows(tensor, indices, new_tensor));
  return batch;
}

// ---- ConcatDataset
// -------------------------------------------------------------------------------

ConcatDataset::ConcatDataset(std::vector<DatasetRef> datasets) : datasets_(std::move(datasets)) {
  check(!datasets_.empty(), "ConcatDataset: expected at least one data set");
  int64_t end = 0;
  for (const DatasetRef& dataset : datasets_) ends_.push_back(end += dataset->size());
}

Example ConcatDataset::get(int64_t index) const {
  check(index >= 0 && index < size(), "ConcatDataset: index ", index,
        " is out of range for a data set of ", size(), " examples");
  const auto part = std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin();
  const int64_t begin = part == 0 ? 0 : ends_[static_cast<size_t>(part) - 1];
  return datasets_[static_cast<size_t>(part)]->get(index - begin);
}

// ---- Subset
// --------------------------------------------------------------------------------------

Subset::Subset(DatasetRef dataset, std::vector<int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  const int64_t count = dataset_->size();
  for (const int64_t index : indices_)
    check(index >= 0 && index < count, "Subset: index ", index,
          " is out of range for a data set of ", count, " examples");
}

Example Subset::get(int64_t index) const {
  check(index >= 0 && index < size(), "Subset: index ", index, " is out of range for a subset of ",
        size(), " examples");
  return dataset_->get(indices_[static_cast<size_t>(index)]);
}

std::optional<Batch> Subset::get_batch(std::span<const int64_t> indices,
                                       NewTensor new_tensor) const {
  std::vector<int64_t> inner;
  inner.reserve(indices.size());
  for (const int64_t index : indices) inner.push_back(indices_[static_cast<size_t>(index)]);
  return dataset_->get_batch(inner, new_tensor);
}

// ---- MapDataset
// ----------------------------------------------------------------------------------

MapDataset::MapDataset(DatasetRef dataset, Function function)
    : dataset_(std::move(dataset)), function_(std::move(function)) {
  check(static_cast<bool>(function_), "MapDataset: expected a function, got none");
}

Example MapDataset::get(int64_t index) const {
  return function_(dataset_->get(index), current_generator());
}

// ---- random_split
// --------------------------------------------------------------------------------

std::vector<Subset> random_split(const DatasetRef& dataset, const std::vector<int64_t>& lengths,
                                 Generator* generator) {
  const int64_t count = dataset->size();
  int64_t total = 0;
  for (const int64_t length : lengths) {
    check(length >= 0, "random_split: expected lengths of at least 0, got ", length);
    total += length;
  }
  check(total == count, "random_split: the lengths add up to ", total, ", but there are ", count,
        " examples");
  const GeneratorScope scope(generator ? *generator : current_generator());
  const std::vector<int64_t> order = to_vector<int64_t>(randperm(count));
  std::vector<Subset> parts;
  auto begin = order.begin();
  for (const int64_t length : lengths) {
    parts.emplace_back(dataset, std::vector<int64_t>(begin, begin + length));
    begin += length;
  }
  return parts;
}

std::vector<Subset> random_split(const DatasetRef& dataset, const std::vector<double>& fractions,
                                 Generator* generator) {
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  check(std::abs(sum - 1) < 1e-9, "random_split: the fractions add up to ", sum, ", expected 1");
  const int64_t count = dataset->size();
  std::vector<int64_t> lengths;
  int64_t left = count;
  for (const double fraction : fractions) {
    check(fraction >= 0 && fraction <= 1, "random_split: expected fractions from 0 to 1, got ",
          fraction);
    lengths.push_back(static_cast<int64_t>(std::floor(static_cast<double>(count) * fraction)));
    left -= lengths.back();
  }
  for (size_t i = 0; left > 0; ++i, --left) ++lengths[i % lengths.size()];
  return random_split(dataset, lengths, generator);
}

}  // namespace tensora::data

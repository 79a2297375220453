#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tensora/base/function_ref.h"
#include "tensora/core/random.h"
#include "tensora/core/tensor.h"

namespace tensora::data {

/// What a data set gives for one index: an image and its label, say.
using Example = TensorList;
/// Examples put together: the same tensors, each with one more dim in front.
using Batch = TensorList;
/// Makes the tensors of a batch; the loader's are in page-locked memory where a GPU wants them.
using NewTensor = FunctionRef<Tensor(const Shape& sizes, DType dtype)>;

/// Examples by number. A data set of your own overrides `get` and `size`.
///
/// The workers of a DataLoader call `get` from several threads at once. Random ops in it draw from
/// a stream of the example's own: see Note [Random streams of examples] in data_loader.cpp.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual Example get(int64_t index) const = 0;
  virtual int64_t size() const = 0;

  /// The batch of these examples in one go, where that is faster than one by one; nothing if it is
  /// not. The indices are in range. Not used by a loader that has a collate function.
  virtual std::optional<Batch> get_batch(std::span<const int64_t> indices,
                                         NewTensor new_tensor) const;

  /// The example at an index; a negative one counts from the end. Throws where it is out of range.
  Example at(int64_t index) const;
};

/// A shared data set: made from one that is moved or copied in, or from a shared pointer.
class DatasetRef {
 public:
  template <std::derived_from<Dataset> T>
  DatasetRef(T dataset)  // NOLINT: implicit
      : dataset_(std::make_shared<const T>(std::move(dataset))) {}
  template <std::derived_from<Dataset> T>
  DatasetRef(std::shared_ptr<T> dataset)  // NOLINT: implicit
      : dataset_(std::move(dataset)) {
    check(dataset_ != nullptr, "Dataset: expected a data set, got a null pointer");
  }

  const Dataset& operator*() const { return *dataset_; }
  const Dataset* operator->() const { return dataset_.get(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
};

/// The examples of one pass through an IterableDataset, one after the other.
class ExampleStream {
 public:
  virtual ~ExampleStream() = default;
  /// Nothing at the end.
  virtual std::optional<Example> next() = 0;
};

/// Examples that come one after the other and cannot be asked for by number: lines of a log, say.
/// A loader reads the stream from one thread at a time, so that the order of the examples does not
/// depend on the number of workers; what takes time belongs into the loader's collate function.
class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  /// Starts the pass number `epoch`. Random ops of `open` and of the stream draw from a generator
  /// that depends on the loader's seed and the epoch.
  virtual std::unique_ptr<ExampleStream> open(int64_t epoch) const = 0;
};

/// Example i holds row i of every tensor; all have the same number of rows.
class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(TensorList tensors);
  template <std::convertible_to<Tensor>... More>
  explicit TensorDataset(const Tensor& first, const More&... more)
      : TensorDataset(TensorList{first, more...}) {}

  Example get(int64_t index) const override;
  int64_t size() const override { return tensors_[0].size(0); }
  std::optional<Batch> get_batch(std::span<const int64_t> indices,
                                 NewTensor new_tensor) const override;
  const TensorList& tensors() const { return tensors_; }

 private:
  TensorList tensors_;
};

/// Several data sets, one after the other.
class ConcatDataset final : public Dataset {
 public:
  explicit ConcatDataset(std::vector<DatasetRef> datasets);
  Example get(int64_t index) const override;
  int64_t size() const override { return ends_.back(); }

 private:
  std::vector<DatasetRef> datasets_;
  std::vector<int64_t> ends_;  // the number of examples up to and including each
};

/// Some examples of a data set.
class Subset final : public Dataset {
 public:
  Subset(DatasetRef dataset, std::vector<int64_t> indices);
  Example get(int64_t index) const override;
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  std::optional<Batch> get_batch(std::span<const int64_t> indices,
                                 NewTensor new_tensor) const override;
  const std::vector<int64_t>& indices() const { return indices_; }

 private:
  DatasetRef dataset_;
  std::vector<int64_t> indices_;
};

/// A data set whose examples go through a function: `MapDataset(images, augment)`. The function
/// gets the generator of the example, which random transforms draw from.
class MapDataset final : public Dataset {
 public:
  using Function = std::function<Example(Example example, Generator& generator)>;
  MapDataset(DatasetRef dataset, Function function);
  Example get(int64_t index) const override;
  int64_t size() const override { return dataset_->size(); }

 private:
  DatasetRef dataset_;
  Function function_;
};

/// Splits a data set at random into parts of these sizes, which add up to its size; or of these
/// fractions of it, which add up to 1: PyTorch's rule, the parts are rounded down and the first
/// ones get one example more where some are left over. The split depends on the generator's state;
/// without one, it draws from this thread's.
std::vector<Subset> random_split(const DatasetRef& dataset, const std::vector<int64_t>& lengths,
                                 Generator* generator = nullptr);
std::vector<Subset> random_split(const DatasetRef& dataset, const std::vector<double>& fractions,
                                 Generator* generator = nullptr);
/// The same for a list of either: `random_split(images, {0.9, 0.1})`.
template <class Number>
  requires std::is_arithmetic_v<Number>
std::vector<Subset> random_split(const DatasetRef& dataset, std::initializer_list<Number> parts,
                                 Generator* generator = nullptr) {
  using Part = std::conditional_t<std::is_integral_v<Number>, int64_t, double>;
  return random_split(dataset, std::vector<Part>(parts.begin(), parts.end()), generator);
}

}  // namespace tensora::data

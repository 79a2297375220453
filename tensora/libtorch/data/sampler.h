#pragma once

// LibTorch's samplers, which give the requests for batches.

#include "tensora/libtorch/serialize.h"

namespace torch::data::samplers {

template <class BatchRequest = std::vector<size_t>>
class Sampler {
 public:
  using BatchRequestType = BatchRequest;
  virtual ~Sampler() = default;
  /// Starts an epoch, of `new_size` examples if given.
  virtual void reset(std::optional<size_t> new_size) = 0;
  /// The next request; nothing at the end of the epoch.
  virtual std::optional<BatchRequest> next(size_t batch_size) = 0;
  virtual void save(serialize::OutputArchive& archive) const = 0;
  virtual void load(serialize::InputArchive& archive) = 0;
};
template <class BatchRequest>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const Sampler<BatchRequest>& sampler) {
  sampler.save(archive);
  return archive;
}
template <class BatchRequest>
serialize::InputArchive& operator>>(serialize::InputArchive& archive,
                                    Sampler<BatchRequest>& sampler) {
  sampler.load(archive);
  return archive;
}

/// A request that is not a list of indices derives from this.
struct CustomBatchRequest {
  CustomBatchRequest() = default;
  CustomBatchRequest(const CustomBatchRequest&) = default;
  CustomBatchRequest& operator=(const CustomBatchRequest&) = default;
  virtual ~CustomBatchRequest() = default;
  virtual size_t size() const = 0;
};

namespace detail {
/// A sampler with a list of indices for the epoch and a position in it.
class ListSampler : public Sampler<> {
 public:
  void reset(std::optional<size_t> new_size = std::nullopt) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  void save(serialize::OutputArchive& archive) const override;
  void load(serialize::InputArchive& archive) override;
  size_t index() const noexcept { return index_; }

 protected:
  explicit ListSampler(size_t size) : size_(size) {}
  /// The indices of an epoch.
  virtual std::vector<size_t> indices() const = 0;
  size_t size_;
  std::vector<size_t> list_;
  size_t index_ = 0;
};
}  // namespace detail

class SequentialSampler : public detail::ListSampler {
 public:
  explicit SequentialSampler(size_t size);

 protected:
  std::vector<size_t> indices() const override;
};

class RandomSampler : public detail::ListSampler {
 public:
  explicit RandomSampler(int64_t size, Dtype index_dtype = kInt64);

 protected:
  std::vector<size_t> indices() const override;
};

/// The share of one process of several.
template <class BatchRequest = std::vector<size_t>>
class DistributedSampler : public detail::ListSampler {
 public:
  void set_epoch(size_t epoch) { epoch_ = epoch; }
  size_t epoch() const { return epoch_; }

 protected:
  DistributedSampler(size_t size, size_t num_replicas, size_t rank, bool allow_duplicates)
      : ListSampler(size),
        num_replicas_(num_replicas),
        rank_(rank),
        allow_duplicates_(allow_duplicates) {}
  size_t local_sample_count() const {
    return allow_duplicates_ ? (size_ + num_replicas_ - 1) / num_replicas_ : size_ / num_replicas_;
  }
  size_t num_replicas_, rank_, epoch_ = 0;
  bool allow_duplicates_;
};

class DistributedRandomSampler : public DistributedSampler<> {
 public:
  explicit DistributedRandomSampler(size_t size, size_t num_replicas = 1, size_t rank = 0,
                                    bool allow_duplicates = true);
  void save(serialize::OutputArchive& archive) const override;
  void load(serialize::InputArchive& archive) override;

 protected:
  std::vector<size_t> indices() const override;
};

class DistributedSequentialSampler : public DistributedSampler<> {
 public:
  explicit DistributedSequentialSampler(size_t size, size_t num_replicas = 1, size_t rank = 0,
                                        bool allow_duplicates = true);

 protected:
  std::vector<size_t> indices() const override;
};

struct BatchSize : CustomBatchRequest {
  explicit BatchSize(size_t size) : size_(size) {}
  size_t size() const noexcept override { return size_; }
  operator size_t() const noexcept { return size_; }  // NOLINT: implicit
  size_t size_;
};

/// Numbers of examples, until an epoch has as many as it should.
class StreamSampler : public Sampler<BatchSize> {
 public:
  explicit StreamSampler(size_t epoch_size) : epoch_size_(epoch_size) {}
  void reset(std::optional<size_t> new_size = std::nullopt) override;
  std::optional<BatchSize> next(size_t batch_size) override;
  void save(serialize::OutputArchive& archive) const override;
  void load(serialize::InputArchive& archive) override;

 private:
  size_t examples_retrieved_so_far_ = 0, epoch_size_;
};

}  // namespace torch::data::samplers

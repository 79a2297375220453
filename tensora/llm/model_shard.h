#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "tensora/core/process_group.h"
#include "tensora/llm/model_config.h"
#include "tensora/llm/weight_source.h"
#include "tensora/models/head_split.h"

namespace tensora::llm {

/// One rank's part of a decoder that is divided over a group: some of the heads, of the
/// feed-forward size and of the vocabulary. The embedding and the norms are not divided.
struct ModelShard {
  std::shared_ptr<ProcessGroup> group = nullptr;
  models::HeadPart heads;
  models::IndexRange feed_forward, vocabulary;

  /// Cuts quantized matrices at the borders of their blocks. Throws where there are too few heads
  /// or blocks for the ranks.
  /// The group is left to the caller.
  static ModelShard make(const ModelConfig& config, const WeightSource& weights, int ranks,
                         int rank);
  /// The hyper-parameters of the part.
  ModelConfig local(const ModelConfig& config) const;
};

/// The weights of a model for several ranks of one process. Each matrix is loaded once, when the
/// first rank asks for it. Any number of threads may call it.
class SharedWeights final : public WeightSource {
 public:
  SharedWeights(WeightSource& source, int ranks)
      : WeightSource(source.device(), source.positions()), source_(source), ranks_(ranks) {}

  // The source notes what it was asked for, so it is asked by one rank at a time.
  bool contains(const std::string& name) const override {
    const std::lock_guard lock(mutex_);
    return source_.contains(name);
  }
  void expect(const std::string& name, const Shape& sizes) const override {
    const std::lock_guard lock(mutex_);
    source_.expect(name, sizes);
  }
  DType matrix_dtype(const std::string& name) const override {
    const std::lock_guard lock(mutex_);
    return source_.matrix_dtype(name);
  }
  Weight matrix(const std::string& name, const Shape& sizes) override;
  Tensor vector(const std::string& name, const Shape& sizes) override;

 private:
  struct Entry {
    Weight weight;
    int wanted;  // by how many ranks, still
  };
  template <class Load>
  Weight take(const std::string& name, const Load& load);

  WeightSource& source_;
  int ranks_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

/// One rank's part of the weights of a model. Rows are views of the whole matrix, columns are
/// copied.
class ShardedWeights final : public WeightSource {
 public:
  ShardedWeights(WeightSource& whole, const ModelConfig& config, ModelShard shard);

  bool contains(const std::string& name) const override { return whole_.contains(name); }
  void expect(const std::string& name, const Shape& sizes) const override;
  DType matrix_dtype(const std::string& name) const override { return whole_.matrix_dtype(name); }
  Weight matrix(const std::string& name, const Shape& sizes) override;
  Tensor vector(const std::string& name, const Shape& sizes) override;
  const ModelShard* shard() const override { return &shard_; }

 private:
  /// Which elements of a tensor are the rank's.
  struct Selection {
    Shape whole;                                // sizes of the whole tensor
    std::vector<models::IndexRange> rows = {};  // of the matrix, one below the other; empty: all
    models::IndexRange columns = {};            // empty: all
    bool first_only = false;                    // rank 0 has all of it, the others zeros
  };
  Selection select(const std::string& name, const Shape& sizes) const;

  WeightSource& whole_;
  ModelConfig config_;  // of the whole model
  ModelShard shard_;
};

}  // namespace tensora::llm

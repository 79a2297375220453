#pragma once

#include <algorithm>
#include <cmath>

#include "../helpers.h"
#include "tensora/llm/model.h"

namespace tensora::llm::testing {

using Tokens = std::vector<int64_t>;

/// Texts that a model reads bit by bit, over a cache whose blocks are handed out in no order.
class Sequences {
 public:
  struct Options {
    int64_t count = 1, longest = 64, block_size = 4;
    DType cache = kFloat32;
  };
  Sequences(const Model& model, Options options)
      : model_(model),
        options_(options),
        blocks_((options.longest + options.block_size - 1) / options.block_size),
        cache_(PagedCache::make(model.config(), options.count * blocks_, options.block_size,
                                options.cache, model.device())),
        lengths_(static_cast<size_t>(options.count)) {}

  /// The batch that appends tokens[s] to sequence s; a sequence without tokens is not in it.
  Batch batch(const std::vector<Tokens>& tokens) {
    std::vector<int64_t> all, positions, slots;
    std::vector<int32_t> starts{0}, lengths, table;
    Batch batch;
    for (size_t s = 0; s < tokens.size(); ++s) {
      if (tokens[s].empty()) continue;
      for (int64_t token : tokens[s]) {
        const int64_t at = lengths_[s]++;
        all.push_back(token);
        positions.push_back(at);
        slots.push_back(block(s, at / options_.block_size) * options_.block_size +
                        at % options_.block_size);
      }
      starts.push_back(static_cast<int32_t>(all.size()));
      lengths.push_back(static_cast<int32_t>(lengths_[s]));
      for (int64_t b = 0; b < blocks_; ++b) table.push_back(static_cast<int32_t>(block(s, b)));
      batch.max_query = std::max(batch.max_query, static_cast<int64_t>(tokens[s].size()));
      batch.max_length = std::max(batch.max_length, lengths_[s]);
    }
    const auto put = [&](const auto& list, DType dtype) {
      return tensor(list, {.dtype = dtype}).to(model_.device());
    };
    batch.tokens = put(all, kInt64);
    batch.positions = put(positions, kInt64);
    batch.slots = put(slots, kInt64);
    batch.query_starts = put(starts, kInt32);
    batch.lengths = put(lengths, kInt32);
    batch.block_table = put(table, kInt32).reshape({static_cast<int64_t>(lengths.size()), blocks_});
    return batch;
  }

  /// The logits of all these tokens, float32 on the CPU, one below the other.
  Tensor feed(const std::vector<Tokens>& tokens, std::vector<AdapterUse> adapters = {}) {
    Batch step = batch(tokens);
    step.adapters = std::move(adapters);
    return model_.forward(step, cache_).cpu();
  }
  PagedCache& cache() { return cache_; }

 private:
  int64_t block(size_t sequence, int64_t number) const {
    const int64_t all = options_.count * blocks_;
    const int64_t at = static_cast<int64_t>(sequence) * blocks_ + number;
    return all - 1 - (at % 2 == 0 ? at / 2 : (all - 1) / 2 + 1 + at / 2);
  }

  const Model& model_;
  Options options_;
  int64_t blocks_;
  PagedCache cache_;
  std::vector<int64_t> lengths_;
};

/// The greatest difference, by the greatest number of `expected`.
inline double difference(const Tensor& got, const Tensor& expected) {
  EXPECT_EQ(got.sizes(), expected.sizes());
  if (got.sizes() != expected.sizes()) return 1e9;
  const double largest = expected.abs().max().item<double>();
  const double worst = (got - expected).abs().max().item<double>();
  return std::isfinite(worst) ? worst / std::max(largest, 1e-30) : 1e9;
}

/// Reproducible tokens.
inline Tokens some_tokens(int64_t count, int64_t vocab, int64_t seed = 1) {
  Tokens result;
  for (int64_t i = 0; i < count; ++i) result.push_back((i * i * 7 + i * seed * 13 + seed) % vocab);
  return result;
}

}  // namespace tensora::llm::testing

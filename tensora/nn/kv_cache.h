#pragma once

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "tensora/core/tensor.h"

namespace tensora::nn {

struct KVCacheOptions {
  /// Room for this many positions is made at once, and no more fit; without it, the arrays grow.
  std::optional<int64_t> max_length = {};
};

/// The keys and values of all earlier positions, for each layer of a model that continues a text
/// token by token. It can be moved, not copied: two caches must not write into one array.
///
///     nn::KVCache cache(model.config().num_layers);
///     Tensor logits = model.forward_cached(prompt, cache);
class KVCache {
 public:
  explicit KVCache(int64_t num_layers, KVCacheOptions options = {});
  KVCache(KVCache&&) noexcept = default;
  KVCache& operator=(KVCache&&) noexcept = default;

  /// Adds key and value (B G T D) of the next T positions to those of `layer`, and returns all of
  /// them so far (B G S D), as views. Outside of any graph.
  std::tuple<Tensor, Tensor> append(int64_t layer, const Tensor& key, const Tensor& value);

  /// How many positions a layer holds.
  int64_t length(int64_t layer = 0) const { return at(layer).length; }
  int64_t num_layers() const { return static_cast<int64_t>(layers_.size()); }
  /// Forgets all positions from `length` on; the memory is kept.
  void truncate(int64_t length);
  void clear() { truncate(0); }
  /// Makes sequence i of the batch a copy of sequence `order[i]`, as beam search does.
  void reorder(const Tensor& order);

 private:
  struct Layer {
    Tensor key, value;  // B G capacity D
    int64_t length = 0;
  };
  const Layer& at(int64_t layer) const;
  Layer& at(int64_t layer) { return const_cast<Layer&>(std::as_const(*this).at(layer)); }
  int64_t capacity_for(const Layer& layer, int64_t length) const;

  KVCacheOptions options_;
  std::vector<Layer> layers_;
};

}  // namespace tensora::nn

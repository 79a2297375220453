#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "tensora/llm/batch.h"
#include "tensora/llm/model_config.h"
#include "tensora/llm/paged_cache.h"

namespace tensora::torch {

/// Rotary angles as LibTorch multiplies by them: x · cos + swapped(x) · sin, where `swapped`
/// exchanges the two numbers of each pair, and the signs are in `sin`. [positions, rotary_dim].
struct RopeTable {
  at::Tensor cos, sin;

  /// `table`: see llm::rope_table.
  static RopeTable from(const Tensor& table, bool in_halves, at::ScalarType dtype);
};

/// One batch as LibTorch's attention needs it. What is derived from the batch is made when it is
/// first asked for, once for all layers.
class Step {
 public:
  Step(const llm::Batch& batch, llm::PagedCache& cache, const llm::ModelConfig& config);

  const llm::Batch& batch() const { return batch_; }
  const llm::ModelConfig& config() const { return config_; }
  llm::PagedCache& cache() const { return cache_; }
  int64_t tokens() const { return batch_.tokens.size(0); }
  int64_t sequences() const { return batch_.lengths.size(0); }
  /// One token of each sequence.
  bool is_decode() const { return batch_.max_query == 1 && tokens() == sequences(); }

  /// The rows of a table for the batch's positions: [T, 1, rotary_dim] each.
  const RopeTable& angles(const RopeTable& table, bool local);
  /// Writes keys and values [T, kv_heads, head_dim] into a layer of the cache.
  void store(int64_t layer, const at::Tensor& keys, const at::Tensor& values);
  /// Attention of queries [T, heads, head_dim] over a layer of the cache. `window`: 0: none.
  at::Tensor attend(int64_t layer, const at::Tensor& queries, int64_t window);

 private:
  at::Tensor flash(int64_t layer, const at::Tensor& queries, int64_t window);
  at::Tensor attend_decode(int64_t layer, const at::Tensor& queries, int64_t window);
  at::Tensor attend_each(int64_t layer, const at::Tensor& queries, int64_t window);
  at::Tensor product(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const at::Tensor& mask, bool causal) const;
  bool can_flash(int64_t layer, const at::Tensor& queries) const;
  const at::Tensor& host(std::optional<at::Tensor>& copy, const Tensor& tensor) const;

  const llm::Batch& batch_;
  llm::PagedCache& cache_;
  const llm::ModelConfig& config_;
  int64_t block_size_;
  std::optional<RopeTable> angles_[2];
  std::optional<at::Tensor> blocks_, places_;  // where tokens are stored
  std::optional<at::Tensor> key_starts_;       // rows where the sequences' keys begin
  std::optional<at::Tensor> masks_[2];         // of decode steps: without and with a window
  std::optional<at::Tensor> starts_, lengths_, table_;  // on the host
};

}  // namespace tensora::torch

#pragma once

#include <vector>

#include "tensora/core/tensor.h"

namespace tensora::llm {

struct ModelConfig;

/// Keys and values of all sequences, in blocks of `block_size` positions. Which block belongs to
/// which sequence is the engine's affair.
struct PagedCache {
  /// Per layer: [num_blocks, kv_heads, block_size, head_dim]. Of a model that is divided over ranks
  /// each layer has such a tensor for each rank, side by side.
  std::vector<Tensor> keys, values;

  /// Cleared to zero. dtype: float32, float16, bfloat16, float8_e4m3fn or q8_0.
  static PagedCache make(const ModelConfig& config, int64_t num_blocks, int64_t block_size,
                         DType dtype, Device device);

  /// The cache of one of `ranks` ranks, which shares memory with this one.
  PagedCache part(size_t rank, size_t ranks) const;

  int64_t num_blocks() const;
  int64_t block_size() const;
  int64_t bytes() const;
  /// What one block costs, in all layers together.
  static int64_t bytes_per_block(const ModelConfig& config, int64_t block_size, DType dtype);
};

}  // namespace tensora::llm

#pragma once

// Internal header
// Products of a batch of activation rows with quantized weights on Hopper's tensor cores. See
// Note [Batches times quantized weights].

#include <cstdint>
#include <string_view>

#include "tensora/base/host_device.h"
#include "tensora/ops/quant/few_rows.h"

namespace tensora::cuda {

inline constexpr int kBatchChunk = 256;  // numbers of a row that are multiplied at a time

/// Fewer rows are better multiplied by few_rows or several_rows, more by many_rows.
inline constexpr int kBatchLeastRows = 2, kBatchMostRows = 512;

/// Rows of activations as wgmma's operand B. Tiles of `width` rows by 256 numbers follow each
/// other, chunk by chunk, then the next `width` rows. A tile has 16 steps of 16 numbers, then a
/// step with the sums of groups of 32, then two with those of groups of 16; a step is two halves of
/// 8 numbers by `width` rows. Sums are pairs of float16, which add up to 22 bits.
struct BatchRows {
  const char* x = nullptr;
  const float* scales = nullptr;  // of each row: the power of two by which it was divided
  int width = 0;
  int chunks = 0;
  int blocks = 0;  // of `width` rows
  int parts = 1;   // of the chunks: a cluster's thread blocks

  static constexpr int kSumsAt = 16 * 32, kFineSumsAt = 17 * 32, kEnd = 19 * 32;  // times width
  TENSORA_HD int64_t tile_bytes() const { return int64_t{width} * kEnd; }
};

/// Rows of activations that share an operand of wgmma.
inline int batch_width(int rows) {
  return rows <= 16 ? 16 : rows <= 32 ? 32 : rows <= 64 ? 64 : 128;
}

/// Queues the product on tensor cores of compute capability 9.0; all weights have dtype `weight`,
/// a block format. False, and nothing is queued, where it does not apply.
bool batch_rows(std::string_view op, int device, DType weight, const RowsCall& call);

}  // namespace tensora::cuda

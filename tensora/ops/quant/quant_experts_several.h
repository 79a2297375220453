#pragma once

// Internal header
// A few rows per expert in whole numbers, by the weights' dtype; quant_experts_several_*_early.cu
// compile a few each. See Note [A few rows per expert].

#include "tensora/ops/quant/quant_experts_call.h"

namespace tensora::cuda {

/// One product of all tiles of up to `width` rows of one expert: four or eight.
struct ExpertsSeveral {
  /// The matrices of the first expert, where results go (row by row, by the number of the row),
  /// k, gate and dtypes. x: tokens, or rows by number.
  RowsCall row;
  const ExpertTile* tiles = nullptr;
  const int* place = nullptr;  // if x has tokens: the number of the row of each pair
  int most = 0, width = 0, used = 0, pairs = 0;
};

struct SeveralExperts {
  int align = 1;  // of addresses and rows
  /// Whether `width` rows of k numbers fit into shared memory.
  bool (*fits)(int width, int k) = nullptr;
  void (*launch)(std::string_view op, int device, ExpertsSeveral call) = nullptr;
};

/// Without `launch` where a dtype has none.
SeveralExperts several_experts(DType weight);

SeveralExperts several_blocks(DType weight);
SeveralExperts several_k_blocks(DType weight);

}  // namespace tensora::cuda

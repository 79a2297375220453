#pragma once

// Internal header
// The kernels for many rows per expert, by the weights' dtype; quant_experts_many_*_sm90a.cu
// compile a few each. See Note [Many rows per expert].

#include "tensora/ops/quant/quant_experts_call.h"

namespace tensora::cuda {

inline constexpr int kManyExpertRows = 192;  // of a tile

struct ManyExperts {
  PanelOrder order = PanelOrder::eight;  // of the activations
  int chunk = 0;                         // numbers; activations are zeros up to a multiple of it
  int align = 1;                         // of addresses and rows
  bool half = false;                     // activations are float16, not bfloat16
  void (*launch)(std::string_view op, int device, const ExpertsProduct& call) = nullptr;
};

/// Without `launch` where a dtype has none.
ManyExperts many_experts(DType weight);

ManyExperts many_blocks(DType weight);
ManyExperts many_k_blocks(DType weight);
ManyExperts many_tables(DType weight);
ManyExperts many_plain(DType weight);

}  // namespace tensora::cuda

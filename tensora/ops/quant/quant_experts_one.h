#pragma once

// Internal header
// The kernels for a single token's experts, by the weights' dtype; quant_experts_one_*_early.cu
// compile a few each. See Note [One token's experts].

#include "tensora/ops/quant/quant_experts_call.h"

namespace tensora::cuda {

/// `row` has one weight: all experts' matrices, with the rows and row_bytes of one. Its k is that
/// of the activations; down products have those of all chosen experts one behind the other.
struct ExpertsRow {
  RowsCall row;
  const long long* chosen = nullptr;
  const float* shares = nullptr;  // gated products: what results are multiplied by
  int experts = 0, used = 0;
  int k = 0;       // of an expert's matrix
  int each = 0;    // tiles of an expert
  int stride = 0;  // gated products: from one expert's results to the next one's
};

struct OneTokenExperts {
  int chunk = 0;      // numbers; activations of an expert are zeros up to a multiple of it
  int align = 1;      // of addresses and rows
  bool half = false;  // activations are float16, not bfloat16
  /// Whether the activations fit into shared memory.
  bool (*fits)(const ExpertsRow& call) = nullptr;
  void (*launch)(std::string_view op, int device, ExpertsRow call) = nullptr;
};

/// Without `launch` where a dtype has none.
OneTokenExperts one_token_experts(DType weight);

OneTokenExperts one_token_blocks(DType weight);
OneTokenExperts one_token_k_blocks(DType weight);
OneTokenExperts one_token_tables(DType weight);
OneTokenExperts one_token_plain(DType weight);

}  // namespace tensora::cuda

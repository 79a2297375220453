#pragma once

// Internal header

#include "tensora/ops/quant/quant_experts_call.h"

namespace tensora::cuda {

inline constexpr int kAnyExpertRows = 8;  // of a tile

/// A product of all tiles by plain arithmetic; not gated, x and out are float32 rows.
void any_experts(std::string_view op, int device, DType weight, const ExpertsProduct& call);

}  // namespace tensora::cuda

#pragma once

// Internal header
// Products of two to eight activation rows with quantized weights in whole numbers. See
// Note [Several rows in whole numbers].

#include "tensora/ops/quant/few_rows.h"

namespace tensora::cuda {

inline constexpr int kSeveralMostRows = 8;

/// Queues the product; all weights have dtype `weight`. False, and nothing is queued, where it does
/// not apply: formats without whole numbers, other activations than bfloat16, rows too long for
/// shared memory, addresses that are not aligned.
bool several_rows(std::string_view op, int device, DType weight, const RowsCall& call);

// The same by the weights' dtype.
bool several_of_iq4_nl(std::string_view op, int device, const RowsCall& call);
bool several_of_mxfp4(std::string_view op, int device, const RowsCall& call);
bool several_of_q4_0(std::string_view op, int device, const RowsCall& call);
bool several_of_q4_k(std::string_view op, int device, const RowsCall& call);
bool several_of_q5_k(std::string_view op, int device, const RowsCall& call);
bool several_of_q6_k(std::string_view op, int device, const RowsCall& call);
bool several_of_q8_0(std::string_view op, int device, const RowsCall& call);

}  // namespace tensora::cuda

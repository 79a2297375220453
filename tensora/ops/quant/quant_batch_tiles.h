#pragma once

// Internal header
// The kernels of batch_rows by the weights' dtype; quant_batch_*_sm90a.cu compile a few each.

#include "tensora/ops/quant/quant_batch.h"

namespace tensora::cuda {

inline constexpr int kBatchMostParts = 4;  // thread blocks of a cluster

/// How many weight rows a block of threads multiplies.
inline constexpr int kBatchWeights = 128;

using BatchLaunch = void (*)(std::string_view op, int device, const RowsCall& call,
                             const BatchRows& rows);
void batch_of_iq4_nl(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_iq4_xs(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_mxfp4(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_nf4(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_q2_k(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_q3_k(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_q4_0(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_q4_1(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_q4_k(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_q5_0(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_q5_1(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_q5_k(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_q6_k(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);
void batch_of_q8_0(std::string_view op, int device, const RowsCall& call, const BatchRows& rows);

}  // namespace tensora::cuda

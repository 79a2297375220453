#pragma once

// Internal header
// The kernels of few_rows by the weights' dtype; quant_rows_*.cu compile a few each.

#include "tensora/ops/quant/few_rows.h"

namespace tensora::cuda {

bool rows_of_bfloat16(std::string_view op, int device, const RowsCall& call);
bool rows_of_float16(std::string_view op, int device, const RowsCall& call);
bool rows_of_float8(std::string_view op, int device, const RowsCall& call);
bool rows_of_int8(std::string_view op, int device, const RowsCall& call);
bool rows_of_iq4_nl(std::string_view op, int device, const RowsCall& call);
bool rows_of_iq4_xs(std::string_view op, int device, const RowsCall& call);
bool rows_of_mxfp4(std::string_view op, int device, const RowsCall& call);
bool rows_of_nf4(std::string_view op, int device, const RowsCall& call);
bool rows_of_q2_k(std::string_view op, int device, const RowsCall& call);
bool rows_of_q3_k(std::string_view op, int device, const RowsCall& call);
bool rows_of_q4_0(std::string_view op, int device, const RowsCall& call);
bool rows_of_q4_1(std::string_view op, int device, const RowsCall& call);
bool rows_of_q4_k(std::string_view op, int device, const RowsCall& call);
bool rows_of_q5_0(std::string_view op, int device, const RowsCall& call);
bool rows_of_q5_1(std::string_view op, int device, const RowsCall& call);
bool rows_of_q5_k(std::string_view op, int device, const RowsCall& call);
bool rows_of_q6_k(std::string_view op, int device, const RowsCall& call);
bool rows_of_q8_0(std::string_view op, int device, const RowsCall& call);

}  // namespace tensora::cuda

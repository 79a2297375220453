#include "tensora/ops/quant/quant_rows_tiles.h"

namespace tensora::cuda {
namespace {

bool launch_few(std::string_view op, int device, DType weight, const RowsCall& call) {
  switch (weight) {
    case DType::q4_0:
      return rows_of_q4_0(op, device, call);
    case DType::q4_1:
      return rows_of_q4_1(op, device, call);
    case DType::q5_0:
      return rows_of_q5_0(op, device, call);
    case DType::q5_1:
      return rows_of_q5_1(op, device, call);
    case DType::q8_0:
      return rows_of_q8_0(op, device, call);
    case DType::q2_k:
      return rows_of_q2_k(op, device, call);
    case DType::q3_k:
      return rows_of_q3_k(op, device, call);
    case DType::q4_k:
      return rows_of_q4_k(op, device, call);
    case DType::q5_k:
      return rows_of_q5_k(op, device, call);
    case DType::q6_k:
      return rows_of_q6_k(op, device, call);
    case DType::iq4_nl:
      return rows_of_iq4_nl(op, device, call);
    case DType::iq4_xs:
      return rows_of_iq4_xs(op, device, call);
    case DType::mxfp4:
      return rows_of_mxfp4(op, device, call);
    case DType::nf4:
      return rows_of_nf4(op, device, call);
    case DType::int8:
      return rows_of_int8(op, device, call);
    case DType::float8_e4m3fn:
      return rows_of_float8(op, device, call);
    case DType::float16:
      return rows_of_float16(op, device, call);
    case DType::bfloat16:
      return rows_of_bfloat16(op, device, call);
    default:
      return false;
  }
}

}  // namespace

bool few_rows(std::string_view op, int device, DType weight, const RowsCall& call) {
  const DType wanted = weight == DType::float16 ? DType::float16 : DType::bfloat16;
  const bool readable = call.x_dtype == wanted && call.k % 8 == 0 && call.k > 0 &&
                        reinterpret_cast<uintptr_t>(call.x) % 16 == 0 &&
                        call.weights[0].row_bytes < int64_t{1} << 30;
  return readable && call.rows <= kFewRows && launch_few(op, device, weight, call);
}

void multiply_rows_by(std::string_view op, int device, DType weight, const RowsCall& call) {
  if (call.rows == 0 || call.columns == 0) return;
  if (few_rows(op, device, weight, call)) return;
  if (call.rows <= kFewRows) return general_rows(op, device, weight, call);
  many_rows(op, device, weight, call);
}

}  // namespace tensora::cuda

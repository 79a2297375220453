#include "tensora/ops/quant/quant_rows.cuh"
#include "tensora/ops/quant/quant_rows_tiles.h"

namespace tensora::cuda {

bool rows_of_bfloat16(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileHalf<BFloat16>>(op, device, call);
}
bool rows_of_float16(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileHalf<Half>, Half>(op, device, call);
}
bool rows_of_int8(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileInt8>(op, device, call);
}
bool rows_of_float8(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileFloat8>(op, device, call);
}

}  // namespace tensora::cuda

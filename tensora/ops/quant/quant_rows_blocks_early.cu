#include "tensora/ops/quant/quant_rows.cuh"
#include "tensora/ops/quant/quant_rows_tiles.h"

namespace tensora::cuda {

bool rows_of_q8_0(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileQ8_0>(op, device, call);
}
bool rows_of_q4_0(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileQ4_0>(op, device, call);
}
bool rows_of_q4_1(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileQ4_1>(op, device, call);
}
bool rows_of_q5_0(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileQ5_0>(op, device, call);
}
bool rows_of_q5_1(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileQ5_1>(op, device, call);
}

}  // namespace tensora::cuda

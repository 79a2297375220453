#include "tensora/ops/quant/quant_rows.cuh"
#include "tensora/ops/quant/quant_rows_tiles.h"

namespace tensora::cuda {

bool rows_of_q4_k(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileQ4_K>(op, device, call);
}
bool rows_of_q5_k(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileQ5_K>(op, device, call);
}
bool rows_of_q6_k(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileQ6_K>(op, device, call);
}
bool rows_of_q3_k(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileQ3_K>(op, device, call);
}
bool rows_of_q2_k(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileQ2_K>(op, device, call);
}

}  // namespace tensora::cuda

#include "tensora/ops/quant/quant_rows.cuh"
#include "tensora/ops/quant/quant_rows_tiles.h"

namespace tensora::cuda {

bool rows_of_iq4_nl(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileIQ4_NL>(op, device, call);
}
bool rows_of_iq4_xs(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileIQ4_XS>(op, device, call);
}
bool rows_of_mxfp4(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileMXFP4>(op, device, call);
}
bool rows_of_nf4(std::string_view op, int device, const RowsCall& call) {
  return launch_rows<TileNF4>(op, device, call);
}

}  // namespace tensora::cuda

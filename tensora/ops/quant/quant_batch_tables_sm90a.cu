#include "tensora/ops/quant/quant_batch.cuh"

namespace tensora::cuda {

void batch_of_q8_0(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchQ8_0>(op, device, call, rows);
}
void batch_of_iq4_nl(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchIQ4_NL>(op, device, call, rows);
}
void batch_of_mxfp4(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchMXFP4>(op, device, call, rows);
}
void batch_of_nf4(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchNF4>(op, device, call, rows);
}

}  // namespace tensora::cuda

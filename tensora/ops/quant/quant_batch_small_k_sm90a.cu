#include "tensora/ops/quant/quant_batch.cuh"

namespace tensora::cuda {

void batch_of_q2_k(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchQ2_K>(op, device, call, rows);
}
void batch_of_q3_k(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchQ3_K>(op, device, call, rows);
}
void batch_of_iq4_xs(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchIQ4_XS>(op, device, call, rows);
}

}  // namespace tensora::cuda

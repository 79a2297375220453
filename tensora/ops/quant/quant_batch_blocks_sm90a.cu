#include "tensora/ops/quant/quant_batch.cuh"

namespace tensora::cuda {

void batch_of_q4_0(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchQ4_0>(op, device, call, rows);
}
void batch_of_q4_1(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchQ4_1>(op, device, call, rows);
}
void batch_of_q5_0(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchQ5_0>(op, device, call, rows);
}
void batch_of_q5_1(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchQ5_1>(op, device, call, rows);
}

}  // namespace tensora::cuda

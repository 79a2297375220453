#include "tensora/ops/quant/quant_batch.cuh"

namespace tensora::cuda {

void batch_of_q4_k(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchQ4_K>(op, device, call, rows);
}
void batch_of_q5_k(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchQ5_K>(op, device, call, rows);
}
void batch_of_q6_k(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  launch_batch<BatchQ6_K>(op, device, call, rows);
}

}  // namespace tensora::cuda

#include "tensora/ops/quant/quant_several_rows.cuh"

namespace tensora::cuda {

bool several_of_q4_k(std::string_view op, int device, const RowsCall& call) {
  return several_of<SeveralSixBits<144>>(op, device, call);
}
bool several_of_q5_k(std::string_view op, int device, const RowsCall& call) {
  return several_of<SeveralSixBits<176>>(op, device, call);
}
bool several_of_q6_k(std::string_view op, int device, const RowsCall& call) {
  return several_of<SeveralQ6_K>(op, device, call);
}

}  // namespace tensora::cuda

#include "tensora/ops/quant/quant_several_rows.cuh"

namespace tensora::cuda {

bool several_of_q4_0(std::string_view op, int device, const RowsCall& call) {
  return several_of<SeveralGroups<GroupsQ4_0>>(op, device, call);
}
bool several_of_q8_0(std::string_view op, int device, const RowsCall& call) {
  return several_of<SeveralGroups<GroupsQ8_0>>(op, device, call);
}
bool several_of_iq4_nl(std::string_view op, int device, const RowsCall& call) {
  return several_of<SeveralGroups<GroupsIQ4_NL>>(op, device, call);
}
bool several_of_mxfp4(std::string_view op, int device, const RowsCall& call) {
  return several_of<SeveralGroups<GroupsMXFP4>>(op, device, call);
}

}  // namespace tensora::cuda

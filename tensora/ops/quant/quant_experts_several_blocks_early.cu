#include "tensora/ops/quant/quant_experts_several.cuh"

namespace tensora::cuda {

SeveralExperts several_blocks(DType weight) {
  switch (weight) {
    case DType::q4_0:
      return several_experts_of<SeveralGroups<GroupsQ4_0>>();
    case DType::q8_0:
      return several_experts_of<SeveralGroups<GroupsQ8_0>>();
    case DType::iq4_nl:
      return several_experts_of<SeveralGroups<GroupsIQ4_NL>>();
    case DType::mxfp4:
      return several_experts_of<SeveralGroups<GroupsMXFP4>>();
    default:
      return {};
  }
}

}  // namespace tensora::cuda

#include "tensora/ops/quant/quant_experts_several.cuh"

namespace tensora::cuda {

SeveralExperts several_k_blocks(DType weight) {
  switch (weight) {
    case DType::q4_k:
      return several_experts_of<SeveralSixBits<144>>();
    case DType::q5_k:
      return several_experts_of<SeveralSixBits<176>>();
    case DType::q6_k:
      return several_experts_of<SeveralQ6_K>();
    default:
      return {};
  }
}

}  // namespace tensora::cuda

#include "tensora/ops/quant/quant_experts_one.cuh"

namespace tensora::cuda {

OneTokenExperts one_token_k_blocks(DType weight) {
  switch (weight) {
    case DType::q2_k:
      return one_token_of<TileQ2_K>();
    case DType::q3_k:
      return one_token_of<TileQ3_K>();
    case DType::q4_k:
      return one_token_of<TileQ4_K>();
    case DType::q5_k:
      return one_token_of<TileQ5_K>();
    case DType::q6_k:
      return one_token_of<TileQ6_K>();
    default:
      return {};
  }
}

}  // namespace tensora::cuda

#include "tensora/ops/quant/quant_experts_one.cuh"

namespace tensora::cuda {

OneTokenExperts one_token_blocks(DType weight) {
  switch (weight) {
    case DType::q4_0:
      return one_token_of<TileQ4_0>();
    case DType::q4_1:
      return one_token_of<TileQ4_1>();
    case DType::q5_0:
      return one_token_of<TileQ5_0>();
    case DType::q5_1:
      return one_token_of<TileQ5_1>();
    case DType::q8_0:
      return one_token_of<TileQ8_0>();
    default:
      return {};
  }
}

}  // namespace tensora::cuda

#include "tensora/ops/quant/quant_experts_many.cuh"

namespace tensora::cuda {

ManyExperts many_k_blocks(DType weight) {
  switch (weight) {
    case DType::q2_k:
      return many_experts_of<TileQ2_K>();
    case DType::q3_k:
      return many_experts_of<TileQ3_K>();
    case DType::q4_k:
      return many_experts_of<TileQ4_K>();
    case DType::q5_k:
      return many_experts_of<TileQ5_K>();
    case DType::q6_k:
      return many_experts_of<TileQ6_K>();
    default:
      return {};
  }
}

}  // namespace tensora::cuda

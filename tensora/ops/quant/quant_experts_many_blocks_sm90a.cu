#include "tensora/ops/quant/quant_experts_many.cuh"

namespace tensora::cuda {

ManyExperts many_blocks(DType weight) {
  switch (weight) {
    case DType::q4_0:
      return many_experts_of<TileQ4_0>();
    case DType::q4_1:
      return many_experts_of<TileQ4_1>();
    case DType::q5_0:
      return many_experts_of<TileQ5_0>();
    case DType::q5_1:
      return many_experts_of<TileQ5_1>();
    case DType::q8_0:
      return many_experts_of<TileQ8_0>();
    default:
      return {};
  }
}

}  // namespace tensora::cuda

#include "tensora/ops/quant/quant_experts_many.cuh"

namespace tensora::cuda {

ManyExperts many_plain(DType weight) {
  switch (weight) {
    case DType::int8:
      return many_experts_of<TileInt8>();
    case DType::float8_e4m3fn:
      return many_experts_of<TileFloat8>();
    case DType::float16:
      return many_experts_of<TileHalf<Half>>();
    case DType::bfloat16:
      return many_experts_of<TileHalf<BFloat16>>();
    default:
      return {};
  }
}

}  // namespace tensora::cuda
